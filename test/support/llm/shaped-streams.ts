import fc from 'fast-check'
import { anyText } from '../random/any-text.ts'

/** Streams whose events repeat a shape, as those of providers do, with odd and broken events among them. */
export function anyShapedStream(): fc.Arbitrary<Buffer> {
  return fc
    .tuple(anyStyle, fc.array(anyEvent, { maxLength: 24 }))
    .map(([style, events]) => Buffer.concat([Buffer.from(style.start), ...events.map((event, i) => written(event, i, style))]))
}

const ODDITIES = [
  ...(['byte', 'cut', 'twice', 'doubled_key', 'escaped_key', 'proto', 'nested', 'number'] as const),
  ...(['line', 'mark', 'two_lines', 'spaces', 'raw', 'type', 'line_end', 'no_end'] as const),
]
type Oddity = (typeof ODDITIES)[number]

const anyStyle = fc.record({
  dialect: fc.constantFrom('chat', 'chat', 'completions', 'responses', 'anthropic'),
  lineEnd: fc.constantFrom('\n', '\n', '\n', '\r\n', '\r'),
  space: fc.constantFrom('', '', '', ' '),
  tail: fc.constantFrom('', '', ',"usage":null', ',"usage":null,"obfuscation":"abc"', ',"obfuscation":""', ',"p":"abcde"'),
  start: fc.constantFrom('', '', '\ufeff', ': welcome\n\n', 'data: {"type":"ping"}\n\n'),
  /** What most events of the stream are, and what is odd about some of them. */
  kind: fc.oneof(fc.constant(0), fc.nat(11)),
  oddity: fc.constantFrom(...ODDITIES),
})
type Style = typeof anyStyle extends fc.Arbitrary<infer T> ? T : never

/** Between the quotes of a JSON string, and not always fit to be there. */
const anyContent = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom('The', ' filter', ' reads', '.', '', ' 12', ' it', 'a longer piece of text than most are') },
  {
    weight: 2,
    arbitrary: fc.constantFrom('\\n\\n', '\\"so\\"', ' \\\\ ', '\\/', '\\u00e9', '\\ud83d\\ude00', '\\ud83d', '\\uDE00x', '\\uD83D\\uDE00'),
  },
  { weight: 2, arbitrary: fc.constantFrom('Straße', '東京', '😀👍', ' café', '\u2028', '\u007f', '\ufeff') },
  { weight: 1, arbitrary: fc.constantFrom('"', '\\', '\\x', '\\u12', '\\ud83', '\t', '\u0001', 'a\nb', 'a\n\nb', '\r', '\\u00zz') },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      ...['"}}]}', '"},"finish_reason":null}]}', '","index":0,"delta":"', '","content":"more', '\\"}}]}\\n\\n', '{"a":', '[DONE]'],
      ...['","usage":{"completion_tokens":7},"x":"', '","text":"', '","sequence_number":5,"x":"', '","type":"error","x":"'],
    ),
  },
  { weight: 1, arbitrary: anyText({ maxLength: 12 }) },
)

const anyEvent = fc.record({
  kind: fc.oneof({ weight: 7, arbitrary: fc.constant(undefined) }, { weight: 3, arbitrary: fc.nat(11) }),
  text: anyContent,
  index: fc.constantFrom(0, 0, 0, 1, 2),
  oddity: fc.oneof(
    { weight: 8, arbitrary: fc.constant('none' as const) },
    { weight: 2, arbitrary: fc.constant(undefined) },
    { weight: 1, arbitrary: fc.constantFrom(...ODDITIES) },
  ),
  share: fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
  byte: fc.nat(255),
})

interface Event {
  readonly kind: number
  readonly text: string
  readonly index: number
  readonly oddity: Oddity | 'none'
  readonly share: number
  readonly byte: number
}

type DrawnEvent = typeof anyEvent extends fc.Arbitrary<infer T> ? T : never

function written(drawn: DrawnEvent, i: number, style: Style): Buffer {
  const event = { ...drawn, kind: drawn.kind ?? style.kind, oddity: drawn.oddity ?? style.oddity }
  const [name, json] = jsonOf(event, i, style)
  const spaced = style.space === '' ? json : json.replaceAll('":', '": ').replaceAll(',"', ', "')
  return damaged(event, name, spaced, style)
}

/** The name of the event, if it has one, and its data. */
function jsonOf({ kind, text, index, share }: Event, i: number, { dialect, tail }: Style): [string, string] {
  if (dialect === 'responses') return responsesJson(kind, text, index, i + Math.floor(share * 1.2))
  if (dialect === 'anthropic') return anthropicJson(kind, text, index)
  return ['', dialect === 'completions' ? completionJson(kind, text, index, tail) : chatJson(kind, text, index, tail)]
}

const HEAD = '"id":"chatcmpl-B9MH","object":"chat.completion.chunk","created":1741570283,"model":"gpt-4o"'

function chatJson(kind: number, text: string, index: number, tail: string): string {
  const choice = (delta: string, finish = 'null'): string =>
    `{${HEAD},"choices":[{"index":${index},"delta":{${delta}},"logprobs":null,"finish_reason":${finish}}]${tail}}`
  const kinds = [
    choice(`"content":"${text}"`),
    choice(`"tool_calls":[{"index":${index},"function":{"arguments":"${text}"}}]`),
    choice(`"reasoning_content":"${text}"`),
    choice(`"content":null,"reasoning":"${text}"`),
    choice(`"reasoning_content":"x","reasoning":"${text}","content":"${text}"`),
    choice(`"content":[{"type":"text","text":"${text}"},{"type":"text","text":"y"}]`),
    choice(`"role":"assistant","content":"${text}","refusal":null`),
    choice('', '"stop"'),
    choice(`"content":"${text}"`, '"length"'),
    `{${HEAD},"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":${text.length},"total_tokens":30}}`,
    `{"error":{"message":"${text}","type":"server_error"}}`,
    '[DONE]',
  ]
  return kinds[kind]!
}

function completionJson(kind: number, text: string, index: number, tail: string): string {
  const finish = kind === 7 ? '"stop"' : 'null'
  if (kind > 8) return chatJson(kind, text, index, tail)
  return `{${HEAD},"choices":[{"text":"${text}","index":${index},"delta":{"content":"unread"},"finish_reason":${finish}}]${tail}}`
}

function responsesJson(kind: number, text: string, index: number, sequence: number): [string, string] {
  const event = (type: string, rest: string): [string, string] => [type, `{"type":"${type}","sequence_number":${sequence}${rest}}`]
  const where = `,"item_id":"msg_1","output_index":${index},"content_index":0`
  const kinds = [
    event('response.output_text.delta', `${where},"delta":"${text}","logprobs":[],"obfuscation":"${'x'.repeat(sequence % 7)}"`),
    event('response.function_call_arguments.delta', `,"item_id":"fc_1","output_index":${index},"delta":"${text}"`),
    event('response.reasoning_summary_text.delta', `${where},"delta":"${text}"`),
    event('response.refusal.delta', `${where},"delta":"${text}"`),
    event('response.audio.delta', `,"delta":"${text}"`),
    event('response.output_text.delta', `${where},"delta":"${text}","response":{"id":"r","text":"${text}"}`),
    event('response.output_text.delta', `${where},"delta":{"text":"${text}"}`),
    event('response.created', `,"response":{"id":"resp_1","text":"${text}","output":[]}`),
    event('response.output_text.done', `${where},"text":"${text}"`),
    event('response.completed', `,"response":{"id":"resp_1","usage":{"input_tokens":3,"output_tokens":${text.length}}}`),
    event('error', `,"code":"server_error","message":"${text}"`),
    event('response.in_progress', `,"delta":"${text}"`),
  ]
  return kinds[kind]!
}

function anthropicJson(kind: number, text: string, index: number): [string, string] {
  const event = (type: string, rest: string): [string, string] => [type, `{"type":"${type}"${rest}}`]
  const kinds = [
    event('content_block_delta', `,"index":${index},"delta":{"type":"text_delta","text":"${text}"}`),
    event('content_block_delta', `,"index":${index},"delta":{"type":"input_json_delta","partial_json":"${text}"}`),
    event('content_block_delta', `,"index":${index},"delta":{"type":"thinking_delta","thinking":"${text}"}`),
    event('content_block_delta', `,"index":${index},"delta":{"type":"signature_delta","signature":"${text}"}`),
    event('content_block_delta', `,"index":${index},"delta":"${text}"`),
    event('content_block_start', `,"index":${index},"content_block":{"type":"text","text":"${text}"}`),
    event('content_block_start', `,"index":${index},"content_block":{"type":"tool_use","input":{"text":"${text}"}}`),
    event('content_block_stop', `,"index":${index}`),
    event('message_start', `,"message":{"usage":{"input_tokens":25,"output_tokens":1},"content":"${text}"}`),
    event('message_delta', `,"delta":{"stop_reason":null,"text":"${text}"},"usage":{"output_tokens":${text.length}}`),
    event('message_stop', ''),
    event('error', `,"error":{"message":"${text}"}`),
  ]
  return kinds[kind]!
}

function damaged(event: Event, name: string, json: string, { lineEnd }: Style): Buffer {
  const { oddity, share, byte } = event
  const at = Math.floor(share * json.length)
  const ends = oddity === 'line_end' ? ['\n', '\r\n', '\r', '\n\r'][byte % 4]! : lineEnd
  const data = oddJson(event, json, at)
  const lines = oddity === 'two_lines' ? [`data: ${data.slice(0, at)}`, `data:${data.slice(at)}`] : [`data: ${data}`]
  if (oddity === 'line') lines.splice(byte % 2, 0, [`: comment`, `id: ${byte}`, 'retry: 5', 'data', 'data:', 'event'][byte % 6]!)
  if (name !== '') lines.unshift(`event: ${name}`)
  if (oddity === 'mark') lines[0] = `\ufeff${lines[0]}`
  const whole = lines.map((line) => `${line}${ends}`).join('') + (oddity === 'no_end' ? '' : ends)
  const bytes = Buffer.from(oddity === 'twice' ? whole + whole : whole)
  if (oddity === 'byte') bytes[Math.floor(share * bytes.length)] = byte
  return oddity === 'cut' ? bytes.subarray(0, Math.floor(share * bytes.length)) : bytes
}

function oddJson({ oddity, text, byte }: Event, json: string, at: number): string {
  const keys = ['content', 'delta', 'text', 'index', 'sequence_number', 'type', 'choices', 'usage', 'partial_json', 'finish_reason']
  const key = keys[byte % keys.length]!
  switch (oddity) {
    case 'doubled_key': {
      const values = ['"x"', `"${text}"`, '7', 'null', '{"text":"z"}', '[]']
      const double = `"${key}":${values[byte % values.length]}`
      return byte % 2 === 0 ? json.replace(/^\{/, `{${double},`) : json.replace(`"${key}":`, `${double},"${key}":`)
    }
    case 'escaped_key':
      return json.replace(`"${key}":`, `"\\u${key.charCodeAt(0).toString(16).padStart(4, '0')}${key.slice(1)}":`)
    case 'proto':
      return json.replace(/\}$/, ',"__proto__":{"content":"p","choices":[],"sequence_number":3,"usage":null},"1":{"text":"q"}}')
    case 'nested':
      return json.replace(/^\{/, `{"x":{"content":"${text}","sequence_number":${byte},"usage":null,"delta":{"text":"n"}},`)
    case 'number':
      return json.replace(
        /:(\d+)/,
        (_, digits) =>
          `:${[`${digits}.0`, `${digits}e0`, `-${digits}`, `0${digits}`, '', '9007199254740993', '1234567890123456', '999999999999999'][byte % 8]}`,
      )
    case 'spaces':
      return ` ${json.slice(0, json.lastIndexOf('}'))} } \t`
    case 'raw':
      return json.slice(0, at) + json.slice(at + 1)
    case 'type':
      return json.replace(/"type":"[^"]*"/, `"type":"${['error', 'ping', 'response.completed', 'content_block_delta'][byte % 4]}"`)
    default:
      return json
  }
}
