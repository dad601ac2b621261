import { type FieldValue, REPEATED } from './view.ts'

const PREFIX = 'bearer '

/** White space to some backends. Of the characters below a space, only tabs occur in field values. */
const SPACES = [' ', '\t', '\x85', '\xa0']
const WHITE_SPACE = /[\s\x85]+/

/**
 * The token of `Bearer <token>`, the scheme in any case, without white space around the token (RFC 9110 11.4, RFC 6750 2.1).
 * Undefined for other schemes and without a token. Of several words after the scheme, backends read different ones as the
 * token, so they count as a repeated token.
 */
export function bearerToken(authorization: FieldValue): FieldValue {
  if (typeof authorization !== 'string') return authorization
  // The usual spelling: a native search for a few characters is much cheaper than a regular expression.
  if (authorization.slice(0, PREFIX.length).toLowerCase() === PREFIX && !hasSpace(authorization, PREFIX.length))
    return authorization.slice(PREFIX.length) || undefined
  const words = authorization.split(WHITE_SPACE).filter((word) => word !== '')
  if (words[0]?.toLowerCase() !== 'bearer') return undefined
  return words.length > 2 ? REPEATED : words[1]
}

function hasSpace(text: string, from: number): boolean {
  for (let i = 0; i < SPACES.length; i++) if (text.indexOf(SPACES[i]!, from) >= 0) return true
  return false
}
