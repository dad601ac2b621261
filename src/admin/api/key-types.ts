import type { Time } from './types.ts'

/** The JSON of the admin API about issued keys. */

/** Labels by name. */
export type KeyLabelsJson = Readonly<Record<string, string>>

export interface KeyRequest {
  readonly labels: KeyLabelsJson
  /** A time in UTC, or a duration such as `90d`; null or absent if the key never expires. */
  readonly expires_at?: string | null
  readonly reason: string
  /** SHA-256 of a key that was issued elsewhere, in base64url; absent for a new key. */
  readonly digest?: string
}

/** What it does not name stays as it is. */
export interface KeyChangeRequest {
  readonly labels?: KeyLabelsJson
  readonly expires_at?: string | null
  readonly reason: string
}

export interface KeyJson {
  readonly id: string
  /** SHA-256 of the key's text, in base64url. */
  readonly digest: string
  readonly labels: KeyLabelsJson
  readonly status: 'active' | 'expired' | 'revoked'
  readonly created_at: Time
  readonly actor: string
  readonly reason: string
  /** Null if the key never expires. */
  readonly expires_at: Time | null
  /** Who changed or revoked it last; null if it is as it was created. */
  readonly edited: KeyEditJson | null
  /** Whether it outlives the process. */
  readonly durable: boolean
}

export interface KeyEditJson {
  readonly actor: string
  readonly reason: string
  readonly at: Time
}

/** A key that was just issued. */
export interface NewKey extends KeyJson {
  /** The key itself, which is shown only here; absent if the request gave its digest. */
  readonly key?: string
}

/** A key that was revoked. */
export interface RevokedKey {
  /** Its requests under way at this instance that were ended: streams, WebSockets, and those that waited for a response. Other instances end theirs within two seconds. */
  readonly streams_ended: number
}

/** An operator knows that the end of EDGE_KEYS_FILE was cut off. */
export interface KeysAcknowledgement {
  readonly reason: string
}

export interface KeyPage {
  /** The value of `after` for the next page; null on the last one. A page may have fewer keys than `limit`, even none, and not be the last. */
  readonly next: string | null
  readonly keys: readonly KeyJson[]
}
