// A backend that answers with one of the texts, which the prompt names, and reports no usage. Only the probes of a budget get usage.
import { createServer } from 'node:http'
import { json } from 'node:stream/consumers'
import { PROMPT, PROMPT_TOKENS } from './backends.mjs'
import { TEXTS } from './texts.mjs'

const PIECE = 40
const PROBED = {
  content: 'the ',
  usage: { prompt_tokens: PROMPT_TOKENS, completion_tokens: 1, total_tokens: PROMPT_TOKENS + 1 },
}

const server = createServer(async (req, res) => {
  if (req.method !== 'POST') {
    res.writeHead(404).end()
    return
  }
  const { model, messages, stream } = await json(req)
  const prompt = messages.at(-1).content
  const { content, usage } = prompt === PROMPT ? PROBED : TEXTS[prompt]
  const head = { id: 'chatcmpl-text', created: 1_767_225_600, model }
  if (!stream) {
    const choices = [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }]
    res.setHeader('Content-Type', 'application/json').end(JSON.stringify({ ...head, object: 'chat.completion', choices, usage }))
    return
  }
  res.setHeader('Content-Type', 'text/event-stream')
  const send = (delta, finish_reason = null) => {
    const choices = [{ index: 0, delta, finish_reason }]
    res.write(`data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', choices })}\n\n`)
  }
  for (let at = 0; at < content.length; at += PIECE) send({ role: 'assistant', content: content.slice(at, at + PIECE) })
  send({}, 'stop')
  res.end('data: [DONE]\n\n')
})
server.listen(0, '127.0.0.1', () => process.send({ port: server.address().port }))
