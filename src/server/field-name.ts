/** What is known of a field by its name alone. */
export interface FieldName {
  readonly lower: string
  /** RFC 9110 5.6.2: it is a token. */
  readonly isValid: boolean
  /** RFC 9110 7.6.1: it concerns one connection and ends with it. */
  readonly isHopByHop: boolean
}

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const HOP_BY_HOP = new Set([
  'connection',
  'proxy-connection',
  'keep-alive',
  'te',
  'transfer-encoding',
  'upgrade',
  'proxy-authenticate',
  'proxy-authorization',
])

/** Names come again and again in the spelling of a few clients and one backend. More, or longer ones, are looked at anew. */
const MAX_KNOWN = 1024
const MAX_LENGTH = 64
const known = new Map<string, FieldName>()

export function fieldName(text: string): FieldName {
  return known.get(text) ?? lookAt(text)
}

function lookAt(text: string): FieldName {
  const lower = text.toLowerCase()
  const name = { lower, isValid: TOKEN.test(text), isHopByHop: HOP_BY_HOP.has(lower) }
  if (name.isValid && known.size < MAX_KNOWN && text.length <= MAX_LENGTH) known.set(text, name)
  return name
}
