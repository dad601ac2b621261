import fc from 'fast-check'
import { REPEATED } from '../../../src/request/view.ts'
import { wellFormedText } from '../random/any-text.ts'

/** A CheckRequest as gateways fill it in, and what must be read of it. */
export interface CheckMessage {
  readonly method: string
  readonly path: string
  readonly host: string
  readonly headers: Readonly<Record<string, string>>
  readonly fields: readonly (readonly [name: string, value: Uint8Array])[]
  readonly source: string
  readonly context: Readonly<Record<string, string>>
  readonly body: string
}

const text = wellFormedText({ maxLength: 12 })
const name = fc.constantFrom('a', 'x-key', 'accept', 'cookie', 'x-forwarded-for', 'authorization', ':authority')
const bytes = fc.uint8Array({ maxLength: 12 })

export const checkMessages: fc.Arbitrary<CheckMessage> = fc.record({
  method: text,
  path: text,
  host: text,
  headers: fc.dictionary(name, text),
  fields: fc.array(fc.tuple(name, bytes), { maxLength: 6 }),
  source: text,
  context: fc.dictionary(text, text).map((entries) => ({ ...entries })),
  body: fc.string({ maxLength: 300 }),
})

/** As a library writes it down. Fields that are never read are filled in too, where the definitions have them. */
export function checkObject({ method, path, host, headers, fields, source, context, body }: CheckMessage): object {
  const http = {
    id: body,
    method,
    headers,
    path,
    host,
    scheme: 'https',
    size: 17,
    protocol: 'HTTP/2',
    body,
    raw_body: Buffer.from(body),
    header_map: { headers: fields.map(([key, value]) => ({ key, raw_value: Buffer.from(value) })) },
  }
  const address = { socket_address: { address: source, port_value: 443 } }
  return {
    attributes: {
      source: { address, service: 'a', labels: { b: 'c' }, certificate: body },
      destination: { address: { socket_address: { address: 'not read', port_value: 1 } } },
      request: { time: { seconds: 1, nanos: 2 }, http },
      context_extensions: context,
      metadata_context: { filter_metadata: { d: { fields: { e: { string_value: 'f' } } } } },
      tls_session: { sni: 'g' },
    },
  }
}

/** A field's value, by the simplest possible reading. */
export function fieldOf({ headers, fields }: CheckMessage, wanted: string): string | undefined | typeof REPEATED {
  const isJoined = fields.length === 0
  const lines = isJoined
    ? Object.entries(headers).flatMap(([each, value]) => (each === wanted ? [byteText(Buffer.from(value))] : []))
    : fields.flatMap(([each, value]) => (each === wanted ? [byteText(Buffer.from(value))] : []))
  if (lines.length === 0) return undefined
  if (wanted === 'x-forwarded-for') return lines.join(', ')
  if (wanted === 'cookie') return lines.join('; ')
  if (lines.length > 1) return REPEATED
  return isJoined && wanted !== 'accept' && lines[0]!.includes(',') ? REPEATED : lines[0]
}

/** A character a byte, without blanks and tabs around. */
function byteText(value: Buffer): string {
  return value.toString('latin1').replace(/^[ \t]+|[ \t]+$/g, '')
}

export function bytesOf(value: string): string {
  return Buffer.from(value).toString('latin1')
}
