import { hash, randomBytes } from 'node:crypto'

/** Labels by name, in the order of the names. */
export type KeyLabels = Readonly<Record<string, string>>

/** Who changed a key last, and why. The time is the key's `momentMs`. */
export interface KeyEdit {
  readonly actor: string
  readonly reason: string
  /** Of a revocation that ends no requests, for other instances. Earlier builds pass over it here. */
  readonly streams?: 'kept' | undefined
}

/** A key that this program issued, without its secret: only a digest of that is kept. */
export interface IssuedKey {
  /** Twelve hexadecimal digits, see `keyIdOf`. */
  readonly id: string
  /** SHA-256 of the key's text, 32 bytes. */
  readonly digest: Buffer
  readonly labels: KeyLabels
  /** Unix time; undefined if the key never expires. */
  readonly expiresMs: number | undefined
  /** Unix time in whole seconds. */
  readonly createdMs: number
  readonly actor: string
  readonly reason: string
  /** When it was changed last. Of two states of a key, the later one counts, unless the other is revoked. */
  readonly momentMs: number
  /** Who changed or revoked it; undefined if it is as it was created. */
  readonly edit: KeyEdit | undefined
  /** A revoked key never changes again. */
  readonly isRevoked: boolean
}

export type KeyStatus = 'active' | 'expired' | 'revoked'

/** A key that is over is remembered this long, so that `explain` and the log can say why it is refused. */
export const KEPT_MS = 30 * 86_400_000

/** What every issued key begins with. No token does: in base64url, its first brace never looks like this. */
export const KEY_PREFIX = 'edge_'
const SECRET_BYTES = 32
const FORM = /^edge_[A-Za-z0-9_-]{43}$/

/** Whether a credential has the form of an issued key. */
export function hasKeyForm(credential: string): boolean {
  return credential.length === 48 && FORM.test(credential)
}

/** Makes a key of 256 random bits. */
export function newKeyText(): string {
  return `${KEY_PREFIX}${randomBytes(SECRET_BYTES).toString('base64url')}`
}

/** The text itself is digested, so a key that is spelled differently, even if it decodes to the same bytes, is another key. */
export function keyDigest(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}

/**
 * Returns the id of the key with this digest: 48 bits of another digest of it. The same key has the same id wherever it is imported. Of the 256 random bits of
 * a key, whoever sees an id still lacks 208, and even those could only be searched.
 */
export function keyIdOf(digest: Uint8Array): string {
  idSource.set(digest, ID_DOMAIN.length)
  return hash('sha256', idSource).slice(0, 12)
}

const ID_DOMAIN = 'edge key id\0'
const idSource = Buffer.alloc(ID_DOMAIN.length + 32, ID_DOMAIN)

export function keyStatus({ isRevoked, expiresMs }: Pick<IssuedKey, 'isRevoked' | 'expiresMs'>, wallMs: number): KeyStatus {
  if (isRevoked) return 'revoked'
  return expiresMs !== undefined && expiresMs <= wallMs ? 'expired' : 'active'
}

/** Returns from when on nobody needs to remember a key, as a Unix time; undefined if it is not over and has no end. */
export function keyForgetMs({
  isRevoked,
  momentMs,
  expiresMs,
}: Pick<IssuedKey, 'isRevoked' | 'momentMs' | 'expiresMs'>): number | undefined {
  if (isRevoked) return momentMs + KEPT_MS
  return expiresMs === undefined ? undefined : expiresMs + KEPT_MS
}

/** Whether `next` takes the place of `current`. A revoked key stays revoked, whatever the clocks of those who changed it say. */
export function isLaterKey(next: IssuedKey, current: IssuedKey | undefined): boolean {
  if (current === undefined) return true
  if (next.isRevoked !== current.isRevoked) return next.isRevoked
  return next.momentMs > current.momentMs
}

/** Sorts labels by name, so that equal sets have equal texts. */
export function sortedLabels(labels: KeyLabels): KeyLabels {
  return Object.fromEntries(Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** A key as JSON, for the journal and for Redis. */
export function encodeKey({ id, digest, labels, expiresMs, createdMs, actor, reason, momentMs, edit, isRevoked }: IssuedKey): string {
  return JSON.stringify({
    id,
    digest: digest.toString('base64url'),
    labels,
    ...(expiresMs !== undefined && { expires: expiresMs }),
    created: createdMs,
    moment: momentMs,
    actor,
    reason,
    ...(edit !== undefined && { edit }),
    ...(isRevoked && { revoked: true }),
  })
}

/** Returns undefined if the text is not a key, or one of a newer version of this program. */
export function decodeKey(text: string): IssuedKey | undefined {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    return undefined
  }
  return keyOf(json)
}

const MEMBERS = new Set(['id', 'digest', 'labels', 'expires', 'created', 'moment', 'actor', 'reason', 'edit', 'revoked'])

function keyOf(json: unknown): IssuedKey | undefined {
  if (typeof json !== 'object' || json === null) return undefined
  const { id, digest, labels, expires, created, moment, actor, reason, edit, revoked = false } = json as Record<string, unknown>
  for (const name in json) if (!MEMBERS.has(name)) return undefined
  if (typeof digest !== 'string' || typeof actor !== 'string' || typeof reason !== 'string' || typeof revoked !== 'boolean')
    return undefined
  const bytes = digestOf(digest)
  if (bytes === undefined || keyIdOf(bytes) !== id) return undefined
  if (!isTime(created) || !isTime(moment) || (expires !== undefined && !isTime(expires))) return undefined
  if (!isTexts(labels) || (edit !== undefined && !isEdit(edit))) return undefined
  return {
    id,
    digest: bytes,
    labels,
    expiresMs: expires,
    createdMs: created,
    actor,
    reason,
    momentMs: moment,
    edit: edit as KeyEdit | undefined,
    isRevoked: revoked,
  }
}

/** Reads a digest as exports have it. Returns undefined if it is none. */
export function digestOf(text: string): Buffer | undefined {
  return DIGEST.test(text) ? Buffer.from(text, 'base64url') : undefined
}

/** 32 bytes in base64url, in the one spelling that has no bits to spare at its end. */
const DIGEST = /^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$/

function isTime(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value < 2 ** 48
}

function isTexts(value: unknown): value is KeyLabels {
  return typeof value === 'object' && value !== null && Object.values(value).every((text) => typeof text === 'string')
}

function isEdit(value: unknown): boolean {
  return isTexts(value) && typeof value['actor'] === 'string' && typeof value['reason'] === 'string'
}
