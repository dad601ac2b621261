// What a model streams, as the chat dialect of OpenAI sends it.

/** What a model says, cut roughly as tokens are: one in eight has something to escape or is beyond ASCII. */
const TEXT =
  'The filter reads every event on its way through. It "counts" what was generated, and it adds usage where a rule asks for it.\n\n' +
  'Most words are plain – a café or a naïve 😀 now and then is not.\n1. One list\n2. Another\n\nSo it goes on, and on, until the end is reached. '
export const TOKENS = TEXT.match(/ ?[\p{L}\d]{1,6}|\s?[^\p{L}\d\s]|\s+/gu)

const CHAT_FIELDS =
  '"id":"chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG","object":"chat.completion.chunk","created":1741570283,"model":"gpt-4o-2024-08-06",' +
  '"service_tier":"default","system_fingerprint":"fp_fc9f1d7035"'

/** One event; `content` is JSON. */
export function chatEvent(content) {
  return `data: {${CHAT_FIELDS},"choices":[{"index":0,"delta":{"content":${content}},"logprobs":null,"finish_reason":null}]}\n\n`
}

/** A chunk of a body: bytes, for its size counts them. */
export function chunkOf(text) {
  const bytes = Buffer.from(text)
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')])
}
