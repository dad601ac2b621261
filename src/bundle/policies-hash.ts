import { createHash } from 'node:crypto'
import type { Bundle } from '../policy/schema/bundle.ts'

/** sha256 of what a bundle decides: the same for bundles that differ only in version, notes, comments, format or the order of fields. */
export function policiesHash({ policies, prices = {}, callers, backends, routes, usage }: Bundle): string {
  const hash = createHash('sha256')
  for (const { id, spec } of policies) {
    const rules = spec.rules.map(({ metadata: _, ...rule }) => rule)
    hash.update(sortedJson({ id, spec: { ...spec, rules } })).update('\n')
  }
  hash.update(sortedJson(prices))
  if (callers !== undefined) hash.update('\n').update(sortedJson(callers))
  if (backends !== undefined || routes !== undefined) hash.update('\n').update(sortedJson({ backends, routes }))
  if (usage !== undefined) hash.update('\n').update(sortedJson({ usage }))
  return hash.digest('hex')
}

function sortedJson(value: object): string {
  return JSON.stringify(value, (_name, member: unknown) => {
    if (typeof member !== 'object' || member === null || Array.isArray(member)) return member
    return Object.fromEntries(Object.entries(member).sort(([one], [other]) => (one < other ? -1 : 1)))
  })
}
