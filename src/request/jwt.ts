/** A token's claims, or undefined where there is nothing readable. Nothing is verified: the gateway has done that. */
export type Claims = Readonly<Record<string, unknown>>

// Above this a token is no token: header limits let somewhat more through, and base64 of it would be decoded in vain.
const MAX_TOKEN_CHARACTERS = 32_768

/** Reads the payload of `Bearer <jwt>`. */
export function readBearerClaims(authorization: string | undefined): Claims | undefined {
  if (authorization === undefined || authorization.length > MAX_TOKEN_CHARACTERS) return undefined
  const payload = BEARER_PAYLOAD.exec(authorization)?.[1]
  if (payload === undefined) return undefined
  try {
    const claims: unknown = JSON.parse(Buffer.from(payload, 'base64').toString('utf8'))
    return typeof claims === 'object' && claims !== null && !Array.isArray(claims) ? (claims as Claims) : undefined
  } catch {
    return undefined // not JSON: the descriptor counts as missing, and that is counted
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

// Both base64 alphabets, padded or not. The signature, if any, is not looked at.
const BEARER_PAYLOAD = /^ *bearer +[\w+/-]+={0,2}\.([\w+/-]+={0,2})(?:\.[\w+/-]*={0,2})? *$/i

function scalarText(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : undefined
}
