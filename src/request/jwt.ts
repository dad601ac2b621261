/** A token's claims. Nothing is verified: the gateway has done that. */
export type Claims = Readonly<Record<string, unknown>>

// A longer text is not a token. Header limits allow somewhat more, and decoding it would be wasted.
const MAX_TOKEN_CHARACTERS = 32_768

/** Reads the payload of a bearer token; undefined where it is unreadable. */
export function readClaims(token: string): Claims | undefined {
  const payload = payloadOf(token)
  if (payload === undefined) return undefined
  try {
    const claims: unknown = JSON.parse(keepLongNumbers(payload))
    return typeof claims === 'object' && claims !== null && !Array.isArray(claims) ? (claims as Claims) : undefined
  } catch {
    return undefined // not JSON: the descriptor is reported as missing
  }
}

/** A claim as text. A dotted name reaches into objects when no claim has that very name. */
export function claimText(claims: Claims, name: string, segments: readonly string[]): string | undefined {
  if (Object.hasOwn(claims, name)) return scalarText(claims[name])
  if (segments.length < 2) return undefined
  let value: unknown = claims
  for (const segment of segments) {
    if (typeof value !== 'object' || value === null || Array.isArray(value) || !Object.hasOwn(value, segment)) return undefined
    value = (value as Claims)[segment]
  }
  return scalarText(value)
}

/** The second of two or three parts, decoded. The other parts are not read. */
function payloadOf(token: string): string | undefined {
  if (token.length > MAX_TOKEN_CHARACTERS) return undefined
  const start = token.indexOf('.') + 1
  const dot = token.indexOf('.', start)
  if (start === 0 || (dot >= 0 && token.includes('.', dot + 1))) return undefined
  return decodeBase64(token.slice(start, dot < 0 ? undefined : dot))
}

/** Both alphabets, padded or not. The decoder skips invalid characters, which shows in the length. */
function decodeBase64(text: string): string | undefined {
  const end = text.endsWith('==') ? text.length - 2 : text.endsWith('=') ? text.length - 1 : text.length
  if (end % 4 === 1) return undefined // no number of bytes has this length
  const bytes = Buffer.from(text, 'base64')
  return bytes.length === Math.floor((end * 3) / 4) ? bytes.toString('utf8') : undefined
}

// The closing quote is optional: otherwise the search would start again at each quote of a string without an end, in quadratic time.
const STRING_OR_NUMBER = /"(?:[^"\\]|\\.)*"?|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g
const LONG_INTEGER = /^-?\d{16,}$/

/** Integers that a double cannot hold become strings, or neighbouring ids would share a bucket. */
function keepLongNumbers(json: string): string {
  if (!/\d{16}/.test(json)) return json
  return json.replace(STRING_OR_NUMBER, (token) =>
    LONG_INTEGER.test(token) && !Number.isSafeInteger(Number(token)) ? `"${token}"` : token,
  )
}

function scalarText(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  return typeof value === 'boolean' || Number.isFinite(value) ? String(value) : undefined
}
