import { Patterns } from '../../policy/patterns.ts'
import type { JwtAlgorithm, JwtEntry, LabelSource } from '../../policy/schema/callers.ts'
import { type Claims, claimValue, keepLongNumbers, scalarText } from '../../request/bearer.ts'
import type { CallerProblem, VerifiedCaller } from '../../request/caller.ts'
import { isAllSeen } from '../../text/printable.ts'
import type { CompactJws } from './compact-jws.ts'

/** What is accepted of an issuer that does not say it: RSA signs with RS256 alone, and of the others each key has one algorithm. */
const USUAL_ALGORITHMS: readonly JwtAlgorithm[] = ['RS256', 'ES256', 'ES384', 'ES512', 'EdDSA']
/** Longer than the subjects of Kubernetes (338) and OpenID Connect (255). */
const MAX_SUBJECT_CHARACTERS = 1024
const MAX_LABEL_CHARACTERS = 1024

/** An entry of `callers.jwt`, made ready to judge tokens. */
export class IssuerEntry {
  readonly name: string
  readonly issuer: string
  /** Two entries with the same identity judge every token alike, so what one has verified holds for the other. */
  readonly identity: string
  readonly #algorithms: ReadonlySet<string>
  /** Undefined accepts any. */
  readonly #audiences: ReadonlySet<string> | undefined
  readonly #clockSkewS: number
  readonly #labels: readonly LabelReader[]

  constructor(entry: JwtEntry) {
    this.name = entry.name
    this.issuer = entry.issuer
    this.identity = JSON.stringify(entry)
    this.#algorithms = new Set(entry.algorithms ?? USUAL_ALGORITHMS)
    this.#audiences = entry.audiences.includes('*') ? undefined : new Set(entry.audiences)
    this.#clockSkewS = entry.clock_skew_seconds
    this.#labels = Object.entries(entry.labels).map(([name, source]) => new LabelReader(name, source))
  }

  accepts(algorithm: string): algorithm is JwtAlgorithm {
    return this.#algorithms.has(algorithm)
  }

  /** Checks the registered claims (RFC 7519 4.1). Nothing here is slow, and it can only refuse, so it comes before the signature. */
  problemOf(claims: Claims, nowS: number): CallerProblem | undefined {
    const { exp, nbf, iat, aud } = claims
    if (!isDate(exp) || !(nbf === undefined || isDate(nbf)) || !(iat === undefined || isDate(iat)) || !this.namesSomebody(claims))
      return 'claims'
    const { fromS, untilS } = this.validity(claims)
    if (nowS >= untilS) return 'expired'
    if (nowS < fromS) return 'not_yet_valid'
    return this.#isFor(aud) ? undefined : 'audience'
  }

  /** From when until before when a token is valid, in seconds of unix time, by claims that `problemOf` has checked. */
  validity({ exp, nbf }: Claims): { readonly fromS: number; readonly untilS: number } {
    const fromS = nbf === undefined ? Number.NEGATIVE_INFINITY : (nbf as number) - this.#clockSkewS
    return { fromS, untilS: (exp as number) + this.#clockSkewS }
  }

  /** Whether `sub` is one by which people can tell callers apart. */
  namesSomebody({ sub }: Claims): boolean {
    return isSubject(sub)
  }

  /** Returns the caller that a verified token names, or undefined if a label would be too long, or people would not see all of it. */
  callerOf({ payload, payloadText }: Pick<CompactJws, 'payload' | 'payloadText'>): VerifiedCaller | undefined {
    const exact = keepLongNumbers(payloadText)
    const claims: Claims = exact === payloadText ? payload : (JSON.parse(exact) as Claims)
    const labels = new Map<string, string>()
    for (const reader of this.#labels) {
      const label = reader.read(claims)
      if (label === undefined) continue
      // Without the label, whoever chose its text would be in the default group, or have no limit.
      if (label.length > MAX_LABEL_CHARACTERS || !isAllSeen(label)) return undefined
      labels.set(reader.name, label)
    }
    return { id: `${this.name}:${payload['sub'] as string}`, labels, claims }
  }

  #isFor(aud: unknown): boolean {
    if (this.#audiences === undefined) return true
    for (const audience of Array.isArray(aud) ? aud : [aud]) if (this.#audiences.has(audience as string)) return true
    return false
  }
}

/** JSON has no infinity, but numbers that are read as one. */
function isDate(value: unknown): value is number {
  return Number.isFinite(value)
}

/** What people do not see is refused: two callers must not look like one to those who set limits for them. */
function isSubject(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= MAX_SUBJECT_CHARACTERS && isAllSeen(value)
}

class LabelReader {
  readonly name: string
  readonly #claim: string
  readonly #segments: readonly string[]
  readonly #first: Patterns | undefined
  readonly #default: string | undefined

  constructor(name: string, source: LabelSource) {
    this.name = name
    this.#claim = source.claim
    this.#segments = source.claim.split('.')
    this.#first = source.first === undefined ? undefined : new Patterns([source.first])
    this.#default = source.default
  }

  read(claims: Claims): string | undefined {
    const value = claimValue(claims, this.#claim, this.#segments)
    // Some issuers write a list with one member as that member, so `first` applies to a text as well.
    const members: readonly unknown[] = Array.isArray(value) ? value.filter((member) => typeof member === 'string') : [scalarText(value)]
    let first: string | undefined
    for (const member of members as (string | undefined)[]) {
      if (member === undefined || member === '' || (this.#first !== undefined && !this.#first.cover(member))) continue
      if (first === undefined || isBefore(member, first)) first = member
    }
    return first ?? this.#default
  }
}

/** By code points. Comparing strings compares units of UTF-16, in which the characters beyond U+FFFF come before U+E000. */
function isBefore(a: string, b: string): boolean {
  const length = Math.min(a.length, b.length)
  for (let i = 0; i < length; i++) {
    const [x, y] = [a.charCodeAt(i), b.charCodeAt(i)]
    if (x !== y) return rank(x) < rank(y)
  }
  return a.length < b.length
}

function rank(unit: number): number {
  return unit >= 0xe000 ? unit - 0x800 : unit >= 0xd800 ? unit + 0x2000 : unit
}
