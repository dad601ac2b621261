import { printableText } from '../../text/printable.ts'
import type { Problem } from '../../text/problem.ts'
import { type DescriptorKey, isCredential, isProviderKey, KEY_KINDS, parseDescriptorKey } from '../descriptor-key.ts'
import type { Bundle, Policy, Rule } from '../schema/bundle.ts'
import type { Callers } from '../schema/callers.ts'

/** Tells which keys a request may lack, as far as the bundle says who is known. */
export class OmittableKeys {
  readonly #callers: Callers | undefined

  constructor(callers: Callers | undefined) {
    this.#callers = callers
  }

  has(text: string): boolean {
    const key = parseDescriptorKey(text)!
    if (key.kind === 'caller') return !this.#isEverybodyKnown || (key.label !== 'id' && !this.#isLabelOfAll(key.label))
    // Every token that is verified has both.
    if (key.kind === 'jwt' && (key.claim === 'sub' || key.claim === 'iss')) return !this.#isEverybodyKnown || !this.#hasTokensOnly
    return KEY_KINDS[key.kind].source === 'client'
  }

  /** Describes those who lack one of the keys. */
  describe(keys: readonly string[]): string {
    const named = keys.map(printableText).join(' or ')
    return this.#isEverybodyKnown && keys.every((key) => this.#isVerified(key))
      ? `a caller without ${named}`
      : `a client that leaves out ${named}`
  }

  /** A way out beside another rule: tokens can be given a label that they lack, but issued keys cannot. */
  remedyFor(keys: readonly string[]): string {
    if (!this.#isEverybodyKnown || !this.#hasTokensOnly || !keys.every((key) => parseDescriptorKey(key)!.kind === 'caller')) return ''
    return 'give the label a default in callers.jwt, or '
  }

  get #isEverybodyKnown(): boolean {
    return this.#callers?.mode === 'enforce'
  }

  get #hasTokensOnly(): boolean {
    return this.#callers?.jwt !== undefined && this.#callers.keys === undefined
  }

  #isVerified(text: string): boolean {
    const { kind } = parseDescriptorKey(text)!
    return kind === 'caller' || (kind === 'jwt' && this.#callers?.jwt !== undefined)
  }

  #isLabelOfAll(label: string): boolean {
    return this.#hasTokensOnly && this.#callers!.jwt!.every(({ labels }) => labels[label]?.default !== undefined)
  }
}

const MAX_NAMED = 5
/** Keys that stand for who a caller is, and that clients can fill with anything. */
const CHOSEN_KINDS: ReadonlySet<DescriptorKey['kind']> = new Set(['bearer', 'key', 'header', 'query', 'cookie'])

/**
 * Warns, once for a bundle, about limits that still count by what clients choose although `callers` knows who they are. Without `callers` there is no such
 * warning: a gateway may have verified everything. See `unverifiedIdentities` for the proxy.
 */
export function* chosenIdentities({ policies, callers }: Bundle): Generator<Problem> {
  const named = callers && namedRules(policies, callers, () => true)
  if (named === undefined) return
  yield {
    path: 'callers',
    message: `these rules count by a value that clients choose, ${named}: use caller:id or a label, which they cannot`,
  }
}

/**
 * Describes limits of a bundle without `callers` that count by what clients choose, for the proxy, in front of which nobody need have verified anything. It is
 * a note: somebody may have. Credentials are left out, because the backend checks them: a made-up one gets a fresh limit and no service.
 */
export function unverifiedIdentities(policies: Iterable<Policy>): string | undefined {
  const named = namedRules(policies, undefined, (text) => !isCredential(text) && !isProviderKey(text))
  return (
    named &&
    `in reverse_proxy, these rules count by a value that clients choose, ${named}: unless a gateway in front verifies it, add callers and use caller:id or a label`
  )
}

/** Names the first rules that count by such a key. `concerns` is given the key as `DescriptorKey.text`. */
function namedRules(policies: Iterable<Policy>, callers: Callers | undefined, concerns: (text: string) => boolean): string | undefined {
  const found: string[] = []
  for (const policy of policies) if (isEnforcing(policy)) found.push(...chosenIn(policy, callers, concerns))
  if (found.length === 0) return undefined
  return `${found.slice(0, MAX_NAMED).join(', ')}${found.length > MAX_NAMED ? ` and ${found.length - MAX_NAMED} more` : ''}`
}

function chosenIn({ id, spec }: Policy, callers: Callers | undefined, concerns: (text: string) => boolean): string[] {
  return spec.rules.flatMap((rule) => {
    const isFound = (text: string): boolean => isChosen(text, callers) && concerns(parseDescriptorKey(text)!.text)
    const key = isKeptByCaller(rule, callers) ? undefined : rule.limit_keys.find(isFound)
    return key === undefined ? [] : [`${printableText(id)}/${printableText(rule.name)} by ${printableText(key)}`]
  })
}

/** Whether the rule also counts by, or applies only to, somebody who was verified. */
function isKeptByCaller({ limit_keys: keys, match }: Rule, callers: Callers | undefined): boolean {
  const matched = typeof match === 'object' ? Object.keys(match) : []
  return [...keys, ...matched].some((text) => {
    const { kind } = parseDescriptorKey(text)!
    return kind === 'caller' || (kind === 'jwt' && callers?.jwt !== undefined)
  })
}

function isChosen(text: string, callers: Callers | undefined): boolean {
  const { kind } = parseDescriptorKey(text)!
  return CHOSEN_KINDS.has(kind) || (kind === 'jwt' && callers?.jwt === undefined)
}

function isEnforcing({ spec: { mode, selector } }: Policy): boolean {
  return mode === 'enforce' && selector?.domain === undefined
}
