import { formatPath, type Problem } from '../../text/problem.ts'
import { type DescriptorKey, parseDescriptorKey } from '../descriptor-key.ts'
import type { Policy } from '../schema/bundle.ts'

/** Says what to do about a key that no request has where a bundle is used; undefined if some may have it. */
export type WayOut = (key: DescriptorKey) => string | undefined

const MAX_WARNINGS = 10

/** Warns of the first rules that never apply, because each needs a value that no request has where the bundle is used. */
export function* neverApplying(policies: Iterable<Policy>, wayOutOf: WayOut): Generator<Problem> {
  let [p, left] = [0, MAX_WARNINGS]
  for (const { spec } of policies) {
    for (const [r, { limit_keys = [], match }] of spec.rules.entries()) {
      for (const text of [...limit_keys, ...(typeof match === 'object' ? Object.keys(match) : [])]) {
        const wayOut = wayOutOf(parseDescriptorKey(text)!)
        if (wayOut === undefined) continue
        const message = `without ${text}, which nothing provides, the rule never applies: ${wayOut}`
        yield { path: formatPath(['policies', p, 'spec', 'rules', r]), message }
        if (--left === 0) return
        break
      }
    }
    p++
  }
}

export const contextInProxy: WayOut = ({ kind }) =>
  kind === 'context' ? 'only Envoy sends it, over gRPC, which reverse_proxy does not serve' : undefined

export const modelWithoutHints: WayOut = ({ kind }) =>
  kind === 'model'
    ? 'decision_service reads no body: have the gateway send X-Edge-Model, and set EDGE_GATEWAY_HINTS=on, here too'
    : undefined
