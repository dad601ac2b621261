import { encodePathText, normalizePath } from '../../text/path.ts'
import { quoted } from '../../text/printable.ts'
import { formatPath, type Path, type Problem, show } from '../../text/problem.ts'
import { isQuotable } from '../descriptor-key.ts'
import { PathPrefixes } from '../patterns.ts'
import type { Selector } from '../schema/selector.ts'

/** Finds members of a selector with surprising effects. `what` has the selector. */
export function* selectorSurprises(
  { pathPrefix, pathExact, exceptPaths = [], descriptors = {} }: Selector,
  what: 'policy' | 'route',
  path: Path,
): Generator<Problem> {
  for (const [key, given] of Object.entries(descriptors)) yield* patternSurprises(key, given, formatPath([...path, 'descriptors', key]))
  const paths: [Path, string | undefined][] = [
    [['pathPrefix'], pathPrefix],
    [['pathExact'], pathExact],
    ...exceptPaths.map((except, i): [Path, string] => [['exceptPaths', i], except]),
  ]
  for (const [at, text] of paths) {
    if (!text?.includes('*')) continue
    const message = 'a * in a path is a literal *; a pathPrefix covers everything below it without one'
    yield { path: formatPath([...path, ...at]), message }
  }
  const own = normalizePath(encodePathText(pathExact ?? pathPrefix ?? '/'))
  const covered = new PathPrefixes([own])
  for (const [i, except] of exceptPaths.entries()) {
    const at = formatPath([...path, 'exceptPaths', i])
    if (new PathPrefixes([except]).cover(own)) yield { path: at, message: `the ${what} covers nothing: ${show(except)} excepts all of it` }
    else if (pathExact !== undefined || !covered.cover(normalizePath(encodePathText(except)))) {
      yield { path: at, message: `it has no effect: the ${what} does not cover this path anyway` }
    }
  }
}

/** Warns about patterns that do not mean what they seem to. Warnings are logged, so they do not quote what may be a secret. */
export function* patternSurprises(key: string, given: string | readonly string[], path: string): Generator<Problem> {
  for (const pattern of typeof given === 'string' ? [given] : given) {
    const shown = isQuotable(key) ? `: ${quoted(pattern)}` : ''
    if (pattern.slice(0, -1).includes('*')) yield { path, message: `only a * at the end stands for any text${shown}` }
  }
}
