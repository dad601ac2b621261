import { TOKEN } from '../text/formats.ts'
import { closest } from '../text/suggest.ts'

/** Where a descriptor's value comes from; `text` is the key in messages and metrics. */
export type DescriptorKey =
  | { readonly kind: 'bearer'; readonly text: string }
  | { readonly kind: 'jwt'; readonly text: string; readonly claim: string; readonly segments: readonly string[] }
  | { readonly kind: 'header'; readonly text: string; readonly name: string }
  | { readonly kind: 'query'; readonly text: string; readonly nameBytes: string }
  | { readonly kind: 'cookie'; readonly text: string; readonly name: string }
  | { readonly kind: 'path'; readonly text: string; readonly segment: number }
  | { readonly kind: 'model'; readonly text: string }
  | { readonly kind: 'context'; readonly text: string; readonly name: string }
  | { readonly kind: 'ip'; readonly text: string; readonly fact: IpFact }
  | { readonly kind: 'descriptor'; readonly text: string; readonly name: string }

export type IpFact = 'address' | 'country' | 'type' | 'tor'

/** The forms that a key may have, for messages. */
export const KEY_FORMS =
  'bearer, jwt:<claim>, header:<name>, query:<name>, cookie:<name>, path:<1 to 32>, context:<name>, llm:model, ip:address, ip:country, ip:type, ip:tor, or with a domain descriptor:<name>'

/** The forms that a key may have, for the JSON Schema. It accepts a little more than `parseDescriptorKey`. */
export const KEY_PATTERN =
  '^(bearer|jwt:.+|header:.+|query:.+|cookie:.+|path:([1-9]|[12][0-9]|3[0-2])|context:.+|llm:model|ip:(address|country|type|tor)|descriptor:.+)$'

const IP_FACT = /^(address|country|type|tor)$/
const SEGMENT = /^([1-9]|[12][0-9]|3[0-2])$/

/** Header names are lower-cased: `header:X-Key` and `header:x-key` are one key. */
export function parseDescriptorKey(text: string): DescriptorKey | undefined {
  if (text === 'bearer') return { kind: 'bearer', text }
  if (text === 'llm:model') return { kind: 'model', text }
  const colon = text.indexOf(':')
  const name = text.slice(colon + 1)
  switch (text.slice(0, Math.max(colon, 0))) {
    case 'jwt':
      return isText(name) ? { kind: 'jwt', text, claim: name, segments: name.split('.') } : undefined
    case 'header': {
      const lower = name.toLowerCase()
      return TOKEN.test(name) ? { kind: 'header', text: `header:${lower}`, name: lower } : undefined
    }
    case 'query':
      return isText(name) && name.isWellFormed() ? { kind: 'query', text, nameBytes: bytesOf(name) } : undefined
    case 'cookie':
      return TOKEN.test(name) ? { kind: 'cookie', text, name } : undefined
    case 'path':
      return SEGMENT.test(name) ? { kind: 'path', text, segment: Number(name) } : undefined
    case 'context':
      return isText(name) && name.isWellFormed() ? { kind: 'context', text, name } : undefined
    case 'ip':
      return IP_FACT.test(name) ? { kind: 'ip', text, fact: name as IpFact } : undefined
    case 'descriptor':
      return isText(name) && name.isWellFormed() ? { kind: 'descriptor', text, name } : undefined
    default:
      return undefined
  }
}

/** Suggests the key that a text is a misspelling of, such as `cookies:sid` or `ip:adress`. A bare `x-api-key` is taken for a header. */
export function meantKey(text: string): string | undefined {
  if (/^x-/i.test(text)) return parseDescriptorKey(`header:${text}`)?.text
  const colon = text.indexOf(':')
  if (colon === -1) return closest(text, ['bearer'])
  const kind = closest(text.slice(0, colon), ['jwt', 'header', 'query', 'cookie', 'path', 'context', 'llm', 'ip', 'descriptor'])
  const name = text.slice(colon + 1)
  const names = kind === 'ip' ? ['address', 'country', 'type', 'tor'] : ['model']
  return parseDescriptorKey(`${kind}:${kind === 'ip' || kind === 'llm' ? closest(name, names) : name}`)?.text
}

/** Whether the key's value is in the body, and so undecided until the body is read. */
export function isInBody({ kind }: DescriptorKey): boolean {
  return kind === 'model'
}

function isText(name: string): boolean {
  return name !== '' && !/\p{Cc}/u.test(name)
}

/** Returns the name's UTF-8 bytes as a latin1 string, which is how request targets are read. */
function bytesOf(name: string): string {
  return Buffer.from(name, 'utf8').toString('latin1')
}

const CREDENTIALS = new Set(['bearer', 'header:authorization', 'header:proxy-authorization', 'header:cookie'])

/** Whether the key's values are credentials, which must not be shown: bearer tokens, cookies and the like. `text` is a `DescriptorKey.text`. */
export function isCredential(text: string): boolean {
  return CREDENTIALS.has(text) || text.startsWith('cookie:')
}
