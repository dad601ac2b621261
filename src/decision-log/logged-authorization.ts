import type { CallerDigest } from '../engine/caller-digest.ts'
import { bearerToken, sentToken } from '../request/bearer.ts'
import { claimText, readClaims } from '../request/jwt.ts'
import { type FieldValue, REPEATED } from '../request/view.ts'
import type { LoggedParts } from './logged-parts.ts'

/** In place of a token that nobody reads. */
const NO_TOKEN = 'claims'

/**
 * An Authorization field that says of a caller what rules read, and nothing else: digests in place of credentials, and of a token's claims
 * only those that a rule names, in a token that is not signed. Undefined: there is nothing that a rule reads.
 */
export function loggedAuthorization(
  field: FieldValue,
  { hasCredential, claims }: NonNullable<LoggedParts['authorization']>,
  callerDigest: CallerDigest,
): FieldValue {
  if (typeof field !== 'string' || field === '') return field || undefined
  const token = hasCredential ? bearerToken(field) : sentToken(field)
  if (token === undefined) return hasCredential ? withScheme(field, callerDigest) : undefined
  if (token === REPEATED) return 'Bearer - -' // as ambiguous as what came
  const read = claims.length === 0 ? undefined : readClaims(token)
  const kept = claims.flatMap(({ claim, segments }) => {
    const text = read && claimText(read, claim, segments)
    return text === undefined ? [] : [[claim, text]]
  })
  if (kept.length === 0) return hasCredential ? `Bearer ${callerDigest([token])}` : undefined
  const payload = Buffer.from(JSON.stringify(Object.fromEntries(kept))).toString('base64url')
  return `Bearer ${hasCredential ? callerDigest([token]) : NO_TOKEN}.${payload}`
}

const SCHEME = /^[A-Za-z][A-Za-z0-9-]{0,31} /

/** The name of a scheme is no secret. */
function withScheme(field: string, callerDigest: CallerDigest): string {
  const scheme = SCHEME.exec(field)?.[0] ?? ''
  return scheme + callerDigest([field])
}
