import { Agent, request } from 'node:http'
import { performance } from 'node:perf_hooks'
import { PROMPT } from './backends.mjs'

/**
 * Sends one chat request and reads the response to its end, or hangs up: after `abortAfterTokens` of a stream, or after `abortAfterMs`. Answers the status, the
 * fields, what was generated as far as the client saw it, and how long it took.
 */
export function chat({ port, key, agent = false }, asked) {
  const { abortAfterTokens, abortAfterMs } = asked
  const body = bodyOf(asked)
  const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body), Authorization: `Bearer ${key}` }
  return new Promise((resolve) => {
    const begun = performance.now()
    const seen = { status: 0, fields: {}, characters: 0, finish: undefined, firstMs: undefined, isComplete: false }
    const req = request({ port, host: '127.0.0.1', path: '/v1/chat/completions', method: 'POST', headers, agent }, (res) => {
      seen.status = res.statusCode
      seen.fields = res.headers
      let rest = ''
      res.setEncoding('utf8').on('data', (chunk) => {
        seen.firstMs ??= performance.now() - begun
        const lines = (rest + chunk).split('\n')
        rest = lines.pop()
        for (const line of lines) readLine(line, seen)
        if (abortAfterTokens !== undefined && seen.characters >= 4 * abortAfterTokens) req.destroy()
      })
      res.on('end', () => {
        readLine(rest, seen)
        seen.isComplete = true
      })
    })
    const timer = abortAfterMs !== undefined && setTimeout(() => req.destroy(), abortAfterMs)
    req.on('error', () => {}) // 'close' follows
    req.on('close', () => {
      clearTimeout(timer)
      resolve({ ...seen, tokens: Math.round(seen.characters / 4), ms: performance.now() - begun })
    })
    req.end(body)
  })
}

/** Keeps connections, where a proxy is measured and not its handshakes. */
export function keepingAgent() {
  return new Agent({ keepAlive: true, maxSockets: 1000 })
}

function bodyOf({ model, maxTokens, isStream = false, hasUsage = true, content = PROMPT }) {
  return JSON.stringify({
    model,
    messages: [{ role: 'user', content }],
    ...(maxTokens !== undefined && { max_tokens: maxTokens }),
    ...(isStream && { stream: true, ...(hasUsage && { stream_options: { include_usage: true } }) }),
  })
}

/** Reads one event of a stream, or a whole response. */
function readLine(line, seen) {
  const text = line.startsWith('data: ') ? line.slice(6) : line
  if (!text.startsWith('{')) return
  const { choices = [] } = JSON.parse(text)
  const [choice] = choices
  seen.characters += (choice?.delta ?? choice?.message)?.content?.length ?? 0
  seen.finish = choice?.finish_reason ?? seen.finish
}
