import { Agent, request } from 'node:http'

/** Average number of requests per second that each caller sends to each path. */
const CALLERS = [
  ['acme', '/search', 9],
  ['initech', '/search', 18],
  ['globex', '/search', 26],
  ['umbrella', '/search', 5],
  ['acme', '/checkout', 12],
  ['hooli', '/checkout', 7],
  ['scraper-7', '/checkout', 4],
  ['acme', '/reports', 3],
  ['globex', '/reports', 1],
  ['hooli', '/webhooks', 6],
  ['acme', '/v1/chat/completions', 2],
  ['umbrella', '/v1/chat/completions', 4],
  ['globex', '/v1/embeddings', 2],
  ['anybody', '/login', 2],
]
const TICK_MS = 100

/** Starts traffic that comes in waves, as that of real users does. */
export function beginTraffic(port) {
  const agent = new Agent({ keepAlive: true, maxSockets: 16 })
  const startedMs = Date.now()
  const timer = setInterval(() => {
    const seconds = (Date.now() - startedMs) / 1000
    CALLERS.forEach(([key, path, rate], i) => {
      const wave = 1 + 0.5 * Math.sin(seconds / (9 + 3 * i) + i) + 0.25 * Math.sin(seconds / 3 + 2 * i)
      const expected = (rate * wave * TICK_MS) / 1000
      const count = Math.floor(expected) + (Math.random() < expected % 1 ? 1 : 0)
      for (let n = 0; n < count; n++) send(agent, port, key, path)
    })
  }, TICK_MS)
  return {
    end() {
      clearInterval(timer)
      agent.destroy()
    },
  }
}

function send(agent, port, key, path) {
  const body = path.startsWith('/v1/') ? llmBody(path) : ''
  const headers = {
    'x-api-key': key,
    'content-length': Buffer.byteLength(body),
    ...(body !== '' && { 'content-type': 'application/json' }),
  }
  const req = request({ agent, host: '127.0.0.1', port, path, method: body === '' ? 'GET' : 'POST', headers }, (res) => res.resume())
  req.on('error', () => {})
  req.end(body)
}

function llmBody(path) {
  const text = 'What does this policy do? '.repeat(12)
  if (path.endsWith('embeddings')) return JSON.stringify({ model: 'text-embedding-3-small', input: text })
  return JSON.stringify({ model: 'gpt-4.1', max_tokens: 400, messages: [{ role: 'user', content: text }] })
}
