import { parseBundle } from '../../../src/policy/parse.ts'
import type { Plan } from '../../../src/policy/plan.ts'
import type { RoutedRequest } from '../../../src/policy/routes/routing.ts'
import { formatProblem } from '../../../src/text/problem.ts'
import { bundle } from './bundles.ts'

export const BACKENDS = {
  a: { url: 'https://a.example' },
  b: { url: 'https://b.example' },
  c: { url: 'https://c.example' },
}

/** A bundle without policies. */
export function routed(routes: readonly object[], backends: object = BACKENDS): object {
  return { ...bundle(1), backends, routes }
}

/** What `edge validate` says of a bundle. */
export function complaintsAbout(given: object): { readonly problems: readonly string[]; readonly warnings: readonly string[] } {
  const parsed = parseBundle(JSON.stringify(given))
  return { problems: parsed.ok ? [] : parsed.problems.map(formatProblem), warnings: parsed.warnings.map(formatProblem) }
}

/** A request with some values; other keys have none. */
export function requestWith(
  { keys }: Plan,
  { values = {}, ...parts }: { path?: string; host?: string; method?: string; values?: Readonly<Record<string, unknown>> },
): RoutedRequest {
  return {
    path: '/',
    host: '',
    method: 'GET',
    ...parts,
    valueOf: (index) => values[keys[index]!.text] as ReturnType<RoutedRequest['valueOf']>,
  }
}
