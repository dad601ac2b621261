import { hash } from 'node:crypto'
import type { JwtAlgorithm } from '../../policy/schema/callers.ts'
import type { VerifiedCaller } from '../../request/caller.ts'
import type { KeySet } from './key-set.ts'

const MAX_TOKENS = 16_384
/** By the estimate of `rememberedBytes`. */
const MAX_BYTES = 32 * 1_048_576
const MAX_AGE_S = 300

/** A token that was verified. */
export interface RememberedToken {
  readonly caller: VerifiedCaller
  /** `name` and `identity` of the entry that accepted it. */
  readonly entryName: string
  readonly entryIdentity: string
  readonly kid: string | undefined
  readonly algorithm: JwtAlgorithm
  /** Of the key that verified it. */
  readonly fingerprint: string
  /** The set in which that key was last seen. */
  keySet: KeySet
  /** From when until before when it is valid, in seconds of unix time. */
  readonly fromS: number
  readonly untilS: number
}

/**
 * Tokens that a worker has verified, under SHA-256 of the whole token, for five minutes at most. Nobody can put anything in here without a valid
 * token, and finding out whether some token is here takes all of that token. The tokens themselves are not kept.
 */
export class TokenMemory {
  /** The oldest first. */
  readonly #tokens = new Map<string, { readonly token: RememberedToken; readonly atS: number; readonly bytes: number }>()
  #bytes = 0

  get size(): number {
    return this.#tokens.size
  }

  get(digest: string, nowS: number): RememberedToken | undefined {
    const found = this.#tokens.get(digest)
    if (found === undefined) return undefined
    // A clock that was set back must not prolong anything.
    if (nowS < found.token.untilS && nowS >= found.token.fromS && nowS >= found.atS && nowS < found.atS + MAX_AGE_S) return found.token
    this.#forget(digest)
    return undefined
  }

  add(digest: string, token: RememberedToken, bytes: number, nowS: number): void {
    this.#forget(digest)
    this.#tokens.set(digest, { token, atS: nowS, bytes })
    this.#bytes += bytes
    for (const oldest of this.#tokens.keys()) {
      if (this.#tokens.size <= MAX_TOKENS && this.#bytes <= MAX_BYTES) return
      this.#forget(oldest)
    }
  }

  #forget(digest: string): void {
    const found = this.#tokens.get(digest)
    if (found === undefined) return
    this.#bytes -= found.bytes
    this.#tokens.delete(digest)
  }
}

export function tokenDigest(token: string): string {
  return hash('sha256', token, 'base64')
}

/** Of an entry without claims, and of a value within them. */
const ENTRY_BYTES = 700
const VALUE_BYTES = 48

/** About how much memory a token takes while it is remembered: many small values take much more than their text. */
export function rememberedBytes(claimsJson: string): number {
  let values = 0
  for (let i = 0; i < claimsJson.length; i++) {
    const code = claimsJson.charCodeAt(i)
    if (code === COMMA || code === BRACKET || code === BRACE) values++
  }
  return ENTRY_BYTES + 2 * claimsJson.length + VALUE_BYTES * values
}

const [COMMA, BRACKET, BRACE] = [0x2c, 0x5b, 0x7b]
