import { bucketRule, bundle, policy } from '../bundles/bundles.ts'
import { DECISION, HTTP_DOORS } from './doors.ts'
import type { Fields } from './http.ts'

export const OTHERS = HTTP_DOORS.filter((door) => door !== DECISION)

export const RULES = bundle(
  1,
  policy('callers', { rules: [bucketRule('caller', ['header:x-caller'], 2)] }),
  policy('addresses', { selector: { pathPrefix: '/ip' }, rules: [bucketRule('address', ['ip:address'], 1)] }),
  policy('hosts', { selector: { pathPrefix: '/by-host', hosts: ['*.example.com'] }, rules: [bucketRule('host', [], 5)] }),
  policy('posts', { selector: { pathPrefix: '/posts', methods: ['POST'] }, rules: [bucketRule('post', ['query:q'], 1)] }),
  policy('blocked', {
    selector: { pathPrefix: '/blocked' },
    rules: [{ name: 'block', limit_keys: [], algorithm: 'block', algorithm_config: {} }],
  }),
)

export function caller(name: string): Fields {
  return [['X-Caller', name]]
}
