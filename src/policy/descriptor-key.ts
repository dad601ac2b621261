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
  | { readonly kind: 'key'; readonly text: string }
  | { readonly kind: 'model'; readonly text: string }
  | { readonly kind: 'context'; readonly text: string; readonly name: string }
  | { readonly kind: 'caller'; readonly text: string; readonly label: string }
  | { readonly kind: 'ip'; readonly text: string; readonly fact: IpFact }
  | { readonly kind: 'descriptor'; readonly text: string; readonly name: string }

export type IpFact = 'address' | 'country' | 'type' | 'tor'

export type KeyKind = DescriptorKey['kind']

interface KindOfKey {
  /** The forms that such a key may have, for messages. The documentation lists the same ones. */
  readonly forms: readonly string[]
  /** The same as a regular expression, for the JSON Schema. It accepts a little more than `parseDescriptorKey`. */
  readonly pattern: string
  /**
   * Who decides about the value: the client, which may also send none; the client by the path it asks for; the proxies in front of `edge`,
   * which state the client's address and facts about it; the gateway's configuration; whoever issued the credential that `callers` verifies;
   * or a call of the rate limit service.
   */
  readonly source: 'client' | 'target' | 'proxies' | 'gateway' | 'issuer' | 'call'
}

/** Every kind of key. Messages, JSON Schema, suggestions and warnings follow from this table. */
export const KEY_KINDS: Readonly<Record<KeyKind, KindOfKey>> = {
  bearer: { forms: ['bearer'], pattern: 'bearer', source: 'client' },
  jwt: { forms: ['jwt:<claim>'], pattern: 'jwt:.+', source: 'client' },
  header: { forms: ['header:<name>'], pattern: 'header:.+', source: 'client' },
  query: { forms: ['query:<name>'], pattern: 'query:.+', source: 'client' },
  cookie: { forms: ['cookie:<name>'], pattern: 'cookie:.+', source: 'client' },
  path: { forms: ['path:<1 to 32>'], pattern: 'path:([1-9]|[12][0-9]|3[0-2])', source: 'target' },
  context: { forms: ['context:<name>'], pattern: 'context:.+', source: 'gateway' },
  caller: { forms: ['caller:id', 'caller:<label>'], pattern: 'caller:[A-Za-z0-9._-]{1,64}', source: 'issuer' },
  key: { forms: ['llm:key'], pattern: 'llm:key', source: 'client' },
  model: { forms: ['llm:model'], pattern: 'llm:model', source: 'client' },
  ip: { forms: ['ip:address', 'ip:country', 'ip:type', 'ip:tor'], pattern: 'ip:(address|country|type|tor)', source: 'proxies' },
  descriptor: { forms: ['descriptor:<name>'], pattern: 'descriptor:.+', source: 'call' },
}

const FORMS = Object.values(KEY_KINDS).flatMap(({ forms }) => forms)
const PREFIXES = [...new Set(FORMS.flatMap((form) => /^(.+):/.exec(form)?.[1] ?? []))]
const CALL_FORMS = Object.values(KEY_KINDS).flatMap(({ forms, source }) => (source === 'call' ? forms : []))
/** Names after a prefix that has only these. */
const FIXED_NAMES = new Map(
  PREFIXES.map(
    (prefix) => [prefix, FORMS.filter((form) => form.startsWith(`${prefix}:`)).map((form) => form.slice(prefix.length + 1))] as const,
  ).filter(([, names]) => !names.some((name) => name.startsWith('<'))),
)

/** The forms that a key may have, for messages. */
export const KEY_FORMS = `${FORMS.filter((form) => !CALL_FORMS.includes(form)).join(', ')}, or with a domain ${CALL_FORMS.join(', ')}`

/** The forms that a key may have, for the JSON Schema. */
export const KEY_PATTERN = `^(${Object.values(KEY_KINDS)
  .map(({ pattern }) => pattern)
  .join('|')})$`

const IP_FACT = /^(address|country|type|tor)$/
const CALLER_LABEL = /^[A-Za-z0-9._-]{1,64}$/
/** Parameters of `GET keys`, so no label has such a name. */
const NO_LABELS = ['after', 'limit']
const SEGMENT = /^([1-9]|[12][0-9]|3[0-2])$/

/** Header names are lower-cased: `header:X-Key` and `header:x-key` are one key. */
export function parseDescriptorKey(text: string): DescriptorKey | undefined {
  if (text === 'bearer') return { kind: 'bearer', text }
  if (text === 'llm:key') return { kind: 'key', text }
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
    case 'caller':
      return CALLER_LABEL.test(name) && !NO_LABELS.includes(name) ? { kind: 'caller', text, label: name } : undefined
    case 'ip':
      return IP_FACT.test(name) ? { kind: 'ip', text, fact: name as IpFact } : undefined
    case 'descriptor':
      return isText(name) && name.isWellFormed() ? { kind: 'descriptor', text, name } : undefined
    default:
      return undefined
  }
}

/** Suggests the key that a text is a misspelling or a part of, such as `cookies:sid`, `ip:adress` or `ip`. A bare `x-api-key` is taken for a header. */
export function meantKey(text: string): string | undefined {
  if (/^x-/i.test(text)) return parseDescriptorKey(`header:${text}`)?.text
  const colon = text.indexOf(':')
  if (colon === -1) return closest(text, ['bearer']) ?? FORMS.find((form) => !form.includes('<') && form.split(':').includes(text))
  const kind = closest(text.slice(0, colon), PREFIXES)
  const name = text.slice(colon + 1)
  const names = FIXED_NAMES.get(kind ?? '')
  return parseDescriptorKey(`${kind}:${names === undefined ? name : closest(name, names)}`)?.text
}

/** Whether the key's value is in the body, and so undecided until the body is read. */
export function isInBody({ kind }: DescriptorKey): boolean {
  return kind === 'model'
}

/** Whether the key's value, if the head of a WebSocket lacks it, may be in a message or a subprotocol: the model, and the keys of providers. */
export function mayComeInSocket({ kind, text }: DescriptorKey): boolean {
  return kind === 'model' || kind === 'bearer' || kind === 'key' || text === 'header:authorization' || isProviderKey(text)
}

function isText(name: string): boolean {
  return name !== '' && !/\p{Cc}/u.test(name)
}

/** Returns the name's UTF-8 bytes as a latin1 string, which is how request targets are read. */
function bytesOf(name: string): string {
  return Buffer.from(name, 'utf8').toString('latin1')
}

const CREDENTIALS = new Set(['bearer', 'llm:key', 'header:authorization', 'header:proxy-authorization', 'header:cookie'])

/** Whether the key's values are credentials, which must not be shown: bearer tokens, cookies and the like. `text` is a `DescriptorKey.text`. */
export function isCredential(text: string): boolean {
  return CREDENTIALS.has(text) || text.startsWith('cookie:')
}

const PROVIDER_KEYS: ReadonlySet<string> = new Set(['header:x-api-key', 'header:api-key', 'header:x-goog-api-key', 'query:key'])

/** Whether providers of LLM APIs expect their keys there. They are shown to operators, who count by them, but leave the service as digests only. */
export function isProviderKey(text: string): boolean {
  return PROVIDER_KEYS.has(text)
}

/** Kinds of keys whose values are no secrets. */
const PLAIN_KINDS: ReadonlySet<KeyKind | undefined> = new Set(['ip', 'path', 'model', 'caller'])

/** Whether messages may quote the key's values, which get into logs. Many a header or parameter holds a secret, and a misspelled key may be `bearer`. */
export function isQuotable(key: string): boolean {
  return PLAIN_KINDS.has(parseDescriptorKey(key)?.kind)
}

/** Whether a key in a bundle may have a value at its end, because the space after its colon is missing. */
export function mayHoldValue(key: string): boolean {
  return parseDescriptorKey(key) === undefined || key.indexOf(':') !== key.lastIndexOf(':')
}
