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

interface Entry {
  readonly digest: string
  readonly token: RememberedToken
  readonly atS: number
  readonly bytes: number
}

/**
 * Tokens that a worker has verified, under SHA-256 of the whole token, for five minutes at most. Nobody can put anything in here without a valid
 * token, and finding out whether some token is here takes all of that token. Only the texts of those that were used lately are kept.
 */
export class TokenMemory {
  /** The oldest first. */
  readonly #tokens = new Map<string, Entry>()
  readonly #recent = new RecentTexts()
  #bytes = 0

  get size(): number {
    return this.#tokens.size
  }

  find(text: string, nowS: number): RememberedToken | undefined {
    let found = this.#recent.find(text)
    // One that was forgotten or replaced since does not count.
    if (found === undefined || this.#tokens.get(found.digest) !== found) {
      found = this.#tokens.get(tokenDigest(text))
      if (found === undefined) return undefined
      this.#recent.add(text, found)
    }
    const { token, atS } = found
    // A clock that was set back must not prolong anything.
    if (nowS < token.untilS && nowS >= token.fromS && nowS >= atS && nowS < atS + MAX_AGE_S) return token
    this.#forget(found.digest)
    return undefined
  }

  add(text: string, token: RememberedToken, bytes: number, nowS: number): void {
    const digest = tokenDigest(text)
    this.#forget(digest)
    this.#tokens.set(digest, { digest, token, atS: nowS, bytes })
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

/** Texts that are kept, half of them in each generation: 4 MiB at most. */
const MAX_RECENT = 1024
const MAX_RECENT_CHARACTERS = 4096
/** The end of a token is the end of its signature, which is different for each. */
const END_CHARACTERS = 24

/**
 * Spares tokens that are used all the time the digest, which takes as long as all the rest of finding them. V8 would take nearly as long to hash a whole text
 * for a Map, so only its end is hashed, and then all of it is compared.
 */
class RecentTexts {
  #young = new Map<string, { readonly text: string; readonly entry: Entry }>()
  #old = new Map<string, { readonly text: string; readonly entry: Entry }>()

  find(text: string): Entry | undefined {
    const end = text.slice(-END_CHARACTERS)
    const found = this.#young.get(end) ?? this.#old.get(end)
    return found !== undefined && found.text === text ? found.entry : undefined
  }

  add(text: string, entry: Entry): void {
    if (text.length > MAX_RECENT_CHARACTERS) return
    if (this.#young.size >= MAX_RECENT / 2) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#young.set(text.slice(-END_CHARACTERS), { text, entry })
  }
}

function tokenDigest(token: string): string {
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
