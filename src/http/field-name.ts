import { TOKEN } from '../token.ts'

/** What is known of a field by its name alone. */
export interface FieldName {
  readonly lower: string
  /** RFC 9110 5.6.2: it is a token. */
  readonly isValid: boolean
  /** RFC 9110 7.6.1: it concerns one connection and ends with it. */
  readonly isHopByHop: boolean
}

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

/** A few clients and one backend send the same spellings again and again, so names are cached. Longer ones are not. */
const MAX_LENGTH = 64
/** Of each of two generations: however many names a client makes up, the usual ones are cached again as soon as they come. */
const MAX_KNOWN = 512
let recent = new Map<string, FieldName>()
let earlier = new Map<string, FieldName>()

export function fieldName(text: string): FieldName {
  return recent.get(text) ?? lookAt(text)
}

function lookAt(text: string): FieldName {
  const name = earlier.get(text) ?? describe(text)
  if (!name.isValid || text.length > MAX_LENGTH) return name
  if (recent.size === MAX_KNOWN) {
    earlier = recent
    recent = new Map()
  }
  recent.set(copyOf(text), name)
  return name
}

function describe(text: string): FieldName {
  const isValid = TOKEN.test(text)
  const lower = (isValid && text.length <= MAX_LENGTH ? copyOf(text) : text).toLowerCase()
  return { lower, isValid, isHopByHop: HOP_BY_HOP.has(lower) }
}

/** A part of a text keeps all of it in memory: a name must not keep the head that it came in. */
function copyOf(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1')
}
