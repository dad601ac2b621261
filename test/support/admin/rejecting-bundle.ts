import { bucketRule, bundle, matching, policy } from '../bundles/bundles.ts'

export const SECRET = 'sk-secret-of-alice'
export const ALICE = { uri: '/x', fields: [['X-Api-Key', SECRET]] as [string, string][] }
export const REJECTING = bundle(
  1,
  policy('api', { rules: [matching({ 'header:x-api-key': '*' }, bucketRule('per-key', ['header:x-api-key'], 1, 0.001))] }),
  policy('trial', {
    mode: 'shadow',
    rules: [matching({ 'header:x-api-key': '*' }, bucketRule('per-key', ['header:x-api-key'], 1, 0.001))],
  }),
)
