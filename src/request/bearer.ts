import { type FieldValue, REPEATED } from './view.ts'

const PREFIX = 'bearer '

/** What some backend takes for white space inside a field's value. Tabs aside, the characters below a space never get here. */
const SPACES = [' ', '\t', '\x85', '\xa0']
const WHITE_SPACE = /[\s\x85]+/

/**
 * The token of `Bearer <token>`, the scheme in any case, white space around the token dropped (RFC 9110 11.4, RFC 6750 2.1).
 * Undefined for other schemes and where no token follows. With several words behind the scheme backends differ in which of
 * them is the token, so that is a token that comes more than once.
 */
export function bearerToken(authorization: FieldValue): FieldValue {
  if (typeof authorization !== 'string') return authorization
  // As nearly all clients write it: looking for a few characters is much cheaper than looking at all.
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
