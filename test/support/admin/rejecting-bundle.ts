import { bucketRule, bundle, matching, policy, unlimitedRule } from '../bundles/bundles.ts'

export const SECRET = 'sk-secret-of-alice'
export const ALICE = { uri: '/x', fields: [['X-Api-Key', SECRET]] as [string, string][] }
const PER_KEY = matching({ 'header:x-api-key': '*' }, bucketRule('per-key', ['header:x-api-key'], 1, 0.001))
export const REJECTING = bundle(
  1,
  policy('api', { rules: [PER_KEY, unlimitedRule('others', 'else')] }),
  policy('trial', { mode: 'shadow', rules: [PER_KEY] }),
)
