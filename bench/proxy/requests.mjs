// What is asked: all contestants get the same.
import { textOf } from '../decision/requests.mjs'

const FIELDS = {
  Host: 'api.example.com',
  'User-Agent': 'bench/1.0',
  Accept: 'application/json',
  'Accept-Encoding': 'gzip, deflate, br',
  'X-Api-Key': 'key-4711-0815',
  'X-Request-Id': '7f3c2d1e',
}
/** 1 KB. */
const ORDER = JSON.stringify({ customer: 4711, articles: 'a-1017, '.repeat(120) }).padEnd(1024)
const CHAT = JSON.stringify({
  model: 'gpt-4o',
  stream: true,
  max_tokens: 4000,
  messages: [
    { role: 'system', content: 'You are a helpful assistant that answers in short sentences.' },
    { role: 'user', content: 'Tell me what time it is, over and over again, until I know it by heart. '.repeat(4) },
  ],
})
const WHOLE_CHAT = JSON.stringify({
  model: 'gpt-4o',
  max_tokens: 20,
  messages: [
    { role: 'system', content: 'You are a helpful assistant that answers in short sentences.' },
    { role: 'user', content: 'What time is it in Lisbon when it is noon in Tokyo?' },
  ],
})

export const ITEM = { method: 'GET', path: '/items/42?full=1', fields: FIELDS }
export const DOCUMENT = { method: 'GET', path: '/documents/7', fields: FIELDS }
export const ORDERS = withJson('/orders', ORDER)
/** An LLM request, whose response comes whole. */
export const COMPLETION = withJson('/llm/v1/chat/completions', WHOLE_CHAT)

/** The same request, with another X-Request-Id each time. The load counts in the number behind the last `key-`. */
export function withIds(request) {
  const fields = { ...request.fields, 'X-Request-Id': 'key-1000000' }
  return { request: { ...request, fields }, keys: { first: 0, count: 1_000_000 } }
}

/** The bytes that ask for a chat stream. */
export function streamRequest(path) {
  return textOf(withJson(path, CHAT))
}

function withJson(path, body) {
  return { method: 'POST', path, fields: { ...FIELDS, 'Content-Type': 'application/json', 'Content-Length': String(body.length) }, body }
}
