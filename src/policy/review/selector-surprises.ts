import { encodePathText, normalizePath } from '../../text/path.ts'
import { quoted } from '../../text/printable.ts'
import { formatPath, type Path, type Problem, show } from '../../text/problem.ts'
import { isQuotable, type KeyKind, parseDescriptorKey } from '../descriptor-key.ts'
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
    if (text?.includes('*')) yield { path: formatPath([...path, ...at]), message: starInPath(text), isRefusedBeforeUse: true }
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

/** A * at the end can be left out; one that stands for a segment is written as a key that reads the segment. */
function starInPath(path: string): string {
  const segments = path.split('/').slice(1)
  const first = segments.findIndex((segment) => segment.includes('*'))
  const rest = segments.flatMap((segment, i) =>
    i < first || segment === '' || /^\*+$/.test(segment) || i >= MAX_SEGMENTS ? [] : [[i + 1, segment]],
  )
  const prefix = `/${segments.slice(0, first).join('/')}`
  const way =
    rest.length === 0
      ? `write ${quoted(prefix)}, and pathPrefix covers everything below it`
      : `write pathPrefix: ${quoted(prefix)} and, in match of the rules, ${rest.map(([at, text]) => `"path:${at}": ${quoted(String(text))}`).join(', ')}`
  return `a * in a path is a literal *, not any text: ${way}`
}

/** `path:33` is no key. */
const MAX_SEGMENTS = 32

// Kinds of keys whose values have no *. Others may: */* is a value of Accept.
const WITHOUT_STAR: ReadonlySet<KeyKind | undefined> = new Set(['ip', 'path', 'model'])
/** A `*` that was meant for any text: `*bot*`, `*.example.com`, `*@example.com`. */
const MEANT_FOR_ANY = /^\*[\w.@-]/

/** Finds patterns that do not mean what they seem to. Warnings are logged, so they do not quote what may be a secret. */
export function* patternSurprises(key: string, given: string | readonly string[], path: string): Generator<Problem> {
  for (const pattern of typeof given === 'string' ? [given] : given) {
    if (!pattern.slice(0, -1).includes('*')) continue
    const shown = isQuotable(key) ? `: ${quoted(pattern)}` : ''
    const message = 'only a * at the end stands for any text'
    if (MEANT_FOR_ANY.test(pattern) || WITHOUT_STAR.has(parseDescriptorKey(key)?.kind)) {
      const way = 'list whole values, or how they begin, such as "example-*"'
      yield { path, message: `${message}, so this never matches: ${way}${shown}`, isRefusedBeforeUse: true }
    } else yield { path, message: `${message}${shown}` }
  }
}
