import type { JwtEntry } from '../../policy/schema/callers.ts'
import { MAX_TOKEN_CHARACTERS } from '../../request/bearer.ts'
import type { CallerProblem, CallerVerdict, UnknownCaller } from '../../request/caller.ts'
import type { Clock } from '../../time/clock.ts'
import { parseCompactJws } from './compact-jws.ts'
import { IssuerEntry } from './issuer-entry.ts'
import type { KeySet } from './key-set.ts'
import { type RememberedToken, rememberedBytes, TokenMemory } from './token-memory.ts'
import { VerificationShare } from './verification-share.ts'

/** Where the key sets of entries are found. */
export interface KeySetSource {
  /** Undefined while the set of that entry was never fetched. Must return the same object as long as the set does not change. */
  of(entryName: string): KeySet | undefined
}

/** A token that may be good, but the key that would verify it is not here. Fetching the entry's key set may bring it; then verify again. */
export interface MissingKey {
  readonly missingKeyOf: string
  /** The key that the token names; undefined only if there is no set at all, and the token names none or one whose name is too long. */
  readonly kid: string | undefined
}

/** The parsing of a longer token is charged to the share like its signature, because it takes as long. */
const MAX_FREE_CHARACTERS = 4096

/**
 * Verifies tokens for the entries of one plan, in place and without waiting. The share and the memory belong to the worker and outlive the plan:
 * otherwise all tokens would have to be verified again at once after each reload. What is remembered counts only for an entry that says the same.
 */
export class TokenVerifier {
  readonly #byIssuer: ReadonlyMap<unknown, IssuerEntry>
  readonly #byName: ReadonlyMap<string, IssuerEntry>
  readonly #keySets: KeySetSource
  readonly #clock: Clock
  readonly #share: VerificationShare
  readonly #memory: TokenMemory

  constructor(
    entries: readonly JwtEntry[],
    keySets: KeySetSource,
    clock: Clock,
    share = new VerificationShare(),
    memory = new TokenMemory(),
  ) {
    const ready = entries.map((entry) => new IssuerEntry(entry))
    this.#byIssuer = new Map(ready.map((entry) => [entry.issuer, entry]))
    this.#byName = new Map(ready.map((entry) => [entry.name, entry]))
    this.#keySets = keySets
    this.#clock = clock
    this.#share = share
    this.#memory = memory
  }

  /** `token` is the token as it was sent. `addressOf` returns the client's address, for its share of the work; it is called only if there is work. Never throws. */
  verify(token: string, addressOf: () => string | undefined): CallerVerdict | MissingKey {
    if (token.length > MAX_TOKEN_CHARACTERS) return unknown('malformed') // before all of it is hashed
    const nowS = Math.floor(this.#clock.wallMs() / 1000)
    const remembered = this.#memory.find(token, nowS)
    if (remembered !== undefined && this.#holds(remembered)) return remembered.caller
    if (token.length > MAX_FREE_CHARACTERS) return this.#charged(addressOf(), () => this.#judge(token, nowS, (check) => check()))
    return this.#judge(token, nowS, (check) => this.#charged(addressOf(), check))
  }

  /** Whether the same entry would still verify the token with the same key. Adding a key to the set makes nobody's token unknown. */
  #holds(remembered: RememberedToken): boolean {
    const keySet = this.#keySets.of(remembered.entryName)
    if (keySet === undefined || this.#byName.get(remembered.entryName)?.identity !== remembered.entryIdentity) return false
    if (keySet === remembered.keySet) return true
    if (keySet.find(remembered.kid, remembered.algorithm)?.fingerprint !== remembered.fingerprint) return false
    remembered.keySet = keySet
    return true
  }

  /** Does what is cheap first. `spend` runs the rest, or refuses to. */
  #judge(token: string, nowS: number, spend: (check: () => CallerVerdict) => CallerVerdict): CallerVerdict | MissingKey {
    const jws = parseCompactJws(token)
    if (jws === undefined) return unknown('malformed')
    const { header, payload } = jws
    const entry = this.#byIssuer.get(payload['iss'])
    if (entry === undefined) return unknown('issuer')
    const { alg: algorithm, kid } = header
    if (!header.isPlainJwt || !entry.accepts(algorithm)) return unknown('algorithm')
    const problem = entry.problemOf(payload, nowS)
    if (problem !== undefined) return unknown(problem)
    const keySet = this.#keySets.of(entry.name)
    if (keySet === undefined) return { missingKeyOf: entry.name, kid: isLongKid(kid) ? undefined : kid }
    const key = keySet.find(kid, algorithm)
    if (key === undefined) {
      const isMissing = kid !== undefined && !isLongKid(kid) && !keySet.has(kid)
      return isMissing ? { missingKeyOf: entry.name, kid } : unknown('unknown_key')
    }
    return spend(() => {
      if (!key.verifies(jws.signed, jws.signature)) return unknown('signature')
      if (jws.hasRepeatedName()) return unknown('malformed')
      const caller = entry.callerOf(jws)
      if (caller === undefined) return unknown('claims')
      const { name: entryName, identity: entryIdentity } = entry
      const { fingerprint } = key
      const remembered = { caller, entryName, entryIdentity, kid, algorithm, fingerprint, keySet, ...entry.validity(payload) }
      this.#memory.add(token, remembered, rememberedBytes(jws.payloadText), nowS)
      return caller
    })
  }

  /** Does work within the share of an address, and charges the address for the time that it took. */
  #charged<Verdict extends CallerVerdict | MissingKey>(address: string | undefined, work: () => Verdict): Verdict | UnknownCaller {
    const startMs = this.#clock.nowMs()
    if (!this.#share.admits(address, startMs)) return unknown('busy')
    const verdict = work()
    const endMs = this.#clock.nowMs()
    this.#share.charge(address, endMs - startMs, endMs, 'id' in verdict)
    return verdict
  }
}

/** Nobody fetches a set, or remembers anything, for a key with a longer name: callers choose it. One that is in the set is used all the same. */
const MAX_KID_CHARACTERS = 256

function isLongKid(kid: string | undefined): boolean {
  return kid !== undefined && kid.length > MAX_KID_CHARACTERS
}

function unknown(problem: CallerProblem): UnknownCaller {
  return { problem }
}
