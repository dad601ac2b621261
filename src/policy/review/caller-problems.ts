import { foldedName } from '../../text/formats.ts'
import { field, formatPath, isObject, listIn, type Path, type Problem, show } from '../../text/problem.ts'
import { KnownWords } from '../../text/suggest.ts'
import { parseDescriptorKey } from '../descriptor-key.ts'

/** More labels are not compared with a misspelled one. */
const MAX_SUGGESTED = 100

/** Finds entries of `callers.jwt` that cannot be told apart. Checks whatever is readable, even if the rest is invalid. */
export function* callersContradictions(callers: unknown): Generator<Problem> {
  const names = new Map<string, string>()
  const issuers = new Map<string, string>()
  for (const [i, entry] of listIn(callers, 'jwt').entries()) {
    yield* repeated(names, entry, 'name', i, 'names of entries are part of caller:id', (name) => name.toLowerCase())
    yield* repeated(issuers, entry, 'issuer', i, 'the issuer of a token chooses its entry', (issuer) => issuer)
  }
}

/** Two texts with the same `identity` are one. Names that differ in case alone are, because people who read `caller:id` take them for one. */
function* repeated(
  seen: Map<string, string>,
  entry: unknown,
  name: string,
  i: number,
  why: string,
  identity: (text: string) => string,
): Generator<Problem> {
  const text = field(entry, name)
  if (typeof text !== 'string') return
  const path = formatPath(['callers', 'jwt', i, name])
  const first = seen.get(identity(text))
  if (first === undefined) seen.set(identity(text), path)
  else yield { path, message: `${show(text)} is already used by ${first}: ${why}` }
}

/** Finds `caller:` keys that no request will ever have a value for, and keys that would show issued keys. */
export class CallerKeys {
  readonly #hasCallers: boolean
  /** Undefined if any label is possible: operators choose those of issued keys. */
  readonly #labels: ReadonlySet<string> | undefined
  readonly #words: KnownWords
  /** Keys whose values would be issued keys, which nobody may see: `top`, explanations and logs show what rules read. */
  readonly #carriers: ReadonlySet<string>

  /** `callers` may be invalid. */
  constructor(callers: unknown) {
    this.#hasCallers = callers !== undefined
    const labels = listIn(callers, 'jwt').flatMap((entry) => {
      const own = field(entry, 'labels')
      return isObject(own) ? Object.keys(own) : []
    })
    const isKnown = isObject(callers) && field(callers, 'keys') === undefined
    this.#labels = isKnown ? new Set(['id', ...labels]) : undefined
    this.#carriers = new Set(listIn(field(callers, 'keys'), 'from').map((place) => spelledAlike(String(place))))
    this.#words = new KnownWords([...new Set(labels)].slice(0, MAX_SUGGESTED))
  }

  /** `item`, which may be invalid, is a rule, a route or `usage`; `keys` is its list of keys, beside `match`. */
  *problemsOf(item: unknown, path: Path, keys: 'limit_keys' | 'stick_to' | 'labels' = 'limit_keys'): Generator<Problem> {
    for (const [k, text] of listIn(item, keys).entries()) yield* this.#problemOf(text, [...path, keys, k])
    const match = field(item, 'match')
    if (!isObject(match)) return
    for (const text of Object.keys(match)) yield* this.#problemOf(text, [...path, 'match', text])
  }

  *#problemOf(text: unknown, path: Path): Generator<Problem> {
    const key = typeof text === 'string' ? parseDescriptorKey(text) : undefined
    if (key?.kind === 'header' && this.#carriers.has(spelledAlike(key.text))) {
      const message = `${show(text)} carries issued keys (callers.keys.from), which must not be shown: use caller:id or a label`
      yield { path: formatPath(path), message }
    }
    if (key?.kind !== 'caller') return
    if (!this.#hasCallers) {
      const message = `${show(text)} needs \`callers\` in the bundle: add callers.jwt to verify tokens, or callers.keys to issue keys`
      yield { path: formatPath(path), message }
    } else if (this.#labels?.has(key.label) === false) {
      const suggestion = this.#words.closest(key.label)
      const hint =
        suggestion === undefined ? 'define it in labels of callers.jwt, or use caller:id' : `did you mean "caller:${suggestion}"?`
      yield { path: formatPath(path), message: `no entry of callers.jwt defines the label of ${show(text)}: ${hint}` }
    }
  }
}

/** In the proxy, a key reads its field in every spelling that some backends take for the same. */
function spelledAlike(place: string): string {
  const lower = place.toLowerCase()
  return lower.startsWith(HEADER) ? `${HEADER}${foldedName(lower.slice(HEADER.length))}` : lower
}

const HEADER = 'header:'
