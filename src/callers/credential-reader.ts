import type { Callers } from '../policy/schema/callers.ts'
import { sentToken } from '../request/bearer.ts'
import type { CallerReader, CallerVerdict, UnknownCaller } from '../request/caller.ts'
import { type FieldValue, REPEATED, type RequestView } from '../request/view.ts'
import type { Clock } from '../time/clock.ts'
import type { KeySet } from './jwt/key-set.ts'
import { TokenMemory } from './jwt/token-memory.ts'
import { type MissingKey, TokenVerifier } from './jwt/token-verifier.ts'
import { VerificationShare } from './jwt/verification-share.ts'
import type { EntryKeySets, WorkerKeySets } from './key-sets/worker-key-sets.ts'
import { KEY_PREFIX } from './keys/issued-key.ts'
import type { IssuedKeys } from './keys/issued-keys.ts'

/** What a worker knows its callers by. */
export interface CredentialReaderParts {
  readonly keySets: WorkerKeySets<KeySet>
  readonly issuedKeys: IssuedKeys
  readonly clock: Clock
}

/**
 * Makes the readers of a worker, one for each plan with `callers`. They share the time for signatures and the remembered tokens: what one plan has spent is
 * spent, and a token that was verified for one plan holds in the next only if that has the same entry, and the entry's set still has the key.
 */
export function credentialReaders({ keySets, issuedKeys, clock }: CredentialReaderParts): (callers: Callers) => CallerReader {
  const share = new VerificationShare()
  const memory = new TokenMemory()
  return (callers) => {
    const { jwt: entries, keys } = callers
    const planKeySets = entries && keySets.forEntries(entries)
    const tokens = planKeySets && { keySets: planKeySets, verifier: new TokenVerifier(entries!, planKeySets, clock, share, memory) }
    return new CredentialReader(tokens, keys && { issuedKeys, places: keys.from }, clock)
  }
}

/** Verifies tokens; absent without `callers.jwt`. */
interface TokenParts {
  readonly verifier: TokenVerifier
  readonly keySets: EntryKeySets<KeySet>
}

/** Finds issued keys; absent without `callers.keys`. */
interface KeyParts {
  readonly issuedKeys: IssuedKeys
  readonly places: readonly string[]
}

const AUTHORIZATION = 'authorization'
const HEADER = 'header:'

const NO_CREDENTIAL: UnknownCaller = { problem: 'no_credential' }
const MALFORMED: UnknownCaller = { problem: 'malformed' }

/** Finds out who sends a request, by the one credential in the places that the bundle names. */
class CredentialReader implements CallerReader {
  readonly #tokens: TokenParts | undefined
  readonly #keys: KeyParts | undefined
  readonly #clock: Clock
  /** Whether `Authorization: Bearer` is read, for tokens or keys. */
  readonly #readsBearer: boolean
  readonly #readsBearerKeys: boolean
  /** Other fields that may carry issued keys. */
  readonly #keyFields: readonly string[]

  constructor(tokens: TokenParts | undefined, keys: KeyParts | undefined, clock: Clock) {
    const places = keys?.places ?? []
    this.#tokens = tokens
    this.#keys = keys
    this.#clock = clock
    this.#readsBearerKeys = places.includes('bearer')
    this.#readsBearer = tokens !== undefined || this.#readsBearerKeys
    this.#keyFields = places.filter((place) => place.startsWith(HEADER)).map((place) => place.slice(HEADER.length).toLowerCase())
  }

  read(view: RequestView, addressOf: () => string | undefined): CallerVerdict | Promise<CallerVerdict> {
    const bearer = this.#bearerOf(view)
    const credential = this.#keyFields.length === 0 ? bearer : this.#onlyCredential(view, bearer)
    if (credential === undefined) return this.#unknown(view, NO_CREDENTIAL)
    if (credential === REPEATED) return this.#unknown(view, { problem: 'two_credentials' })
    if (credential.startsWith(KEY_PREFIX)) return this.#readKey(view, credential, addressOf)
    // A token is read as a bearer token alone.
    if (this.#tokens === undefined || bearer === undefined) return this.#unknown(view, MALFORMED)
    const verdict = this.#tokens.verifier.verify(credential, addressOf)
    if ('missingKeyOf' in verdict) return this.#waitFor(this.#tokens, verdict, credential, addressOf())
    return 'problem' in verdict ? this.#unknown(view, verdict) : verdict
  }

  #bearerOf(view: RequestView): FieldValue {
    return this.#readsBearer ? sentToken(view.header(AUTHORIZATION)) : undefined
  }

  /** The same credential in two places is one. If there are two, or one in a repeated field, nobody chooses between them. */
  #onlyCredential(view: RequestView, bearer: FieldValue): FieldValue {
    let only = bearer
    for (const name of this.#keyFields) {
      const value = view.header(name) || undefined
      if (value === undefined) continue
      if (only !== undefined && value !== only) return REPEATED
      only = value
    }
    return only
  }

  #readKey(view: RequestView, credential: string, addressOf: () => string | undefined): CallerVerdict {
    const found =
      this.#keys === undefined || (this.#bearerOf(view) === credential && !this.#readsBearerKeys)
        ? MALFORMED
        : this.#keys.issuedKeys.find(credential, addressOf, this.#clock.nowMs(), this.#clock.wallMs())
    return { ...found, keyFields: this.#fieldsWithKeys(view) }
  }

  #unknown(view: RequestView, unknown: UnknownCaller): UnknownCaller {
    const keyFields = this.#fieldsWithKeys(view)
    return keyFields.length === 0 ? unknown : { ...unknown, keyFields }
  }

  /** The fields that have something in them that looks like a key, wherever keys are read. A repeated field may. */
  #fieldsWithKeys(view: RequestView): string[] {
    const authorization = view.header(AUTHORIZATION)
    const others = this.#keyFields.filter((name) => {
      const value = view.header(name)
      return value === REPEATED || value?.includes(KEY_PREFIX) === true
    })
    const mayHaveKey = authorization === REPEATED ? this.#keys !== undefined : authorization !== undefined && hasKey(authorization)
    return mayHaveKey ? [AUTHORIZATION, ...others] : others
  }

  /** Waits for the set that may have the token's key, and verifies once more. The address is read before, because the request may be gone afterwards. */
  #waitFor(
    { keySets, verifier }: TokenParts,
    { missingKeyOf, kid }: MissingKey,
    token: string,
    address: string | undefined,
  ): CallerVerdict | Promise<CallerVerdict> {
    const waiting = keySets.wait(missingKeyOf, kid)
    if (!(waiting instanceof Promise)) return { problem: waiting }
    return waiting.then((problem) => {
      if (problem !== undefined) return { problem }
      const verdict = verifier.verify(token, () => address)
      // The key came and went in the meantime.
      return 'missingKeyOf' in verdict ? { problem: 'keys_unavailable' } : verdict
    })
  }
}

/** Whether the text of `Authorization` has a key in it, however clients spelled that: `Token KEY`, `Bearer "KEY"`, `KEY`, or as a name or password. */
function hasKey(authorization: string): boolean {
  const token = sentToken(authorization)
  if (typeof token === 'string' && token.startsWith(KEY_PREFIX)) return true // perhaps a damaged one
  const basic = BASIC.exec(authorization)
  if (basic !== null && KEY.test(Buffer.from(basic[1]!, 'base64').toString('latin1'))) return true
  // By chance, one JWT of a million has what looks like a key in it.
  return KEY.test(authorization) && !BEARER_JWT.test(authorization)
}

const BASIC = /^\s*basic\s+(\S.*)$/i
/** In a name such as `edge_service`, the prefix alone means nothing. */
const KEY = /edge_[\w-]{43}/
const BEARER_JWT = /^bearer ey[\w-]*\.[\w-]*\.[\w-]*$/i
