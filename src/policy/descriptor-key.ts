import { TOKEN } from '../token.ts'

/** Where a descriptor's value comes from; `text` is the key in messages and metrics. */
export type DescriptorKey =
  | { readonly kind: 'bearer'; readonly text: string }
  | { readonly kind: 'jwt'; readonly text: string; readonly claim: string; readonly segments: readonly string[] }
  | { readonly kind: 'header'; readonly text: string; readonly name: string }
  | { readonly kind: 'ip'; readonly text: string; readonly fact: IpFact }

export type IpFact = 'address' | 'country' | 'type' | 'tor'

const IP_FACT = /^(address|country|type|tor)$/

/** Header names are lower-cased: `header:X-Key` and `header:x-key` are one key. */
export function parseDescriptorKey(text: string): DescriptorKey | undefined {
  if (text === 'bearer') return { kind: 'bearer', text }
  const colon = text.indexOf(':')
  const name = text.slice(colon + 1)
  switch (text.slice(0, Math.max(colon, 0))) {
    case 'jwt':
      return name === '' || hasControlCharacter(name) ? undefined : { kind: 'jwt', text, claim: name, segments: name.split('.') }
    case 'header': {
      const lower = name.toLowerCase()
      return TOKEN.test(name) ? { kind: 'header', text: `header:${lower}`, name: lower } : undefined
    }
    case 'ip':
      return IP_FACT.test(name) ? { kind: 'ip', text, fact: name as IpFact } : undefined
    default:
      return undefined
  }
}

function hasControlCharacter(text: string): boolean {
  return /\p{Cc}/u.test(text)
}
