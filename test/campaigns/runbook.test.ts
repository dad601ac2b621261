import { expect, test } from 'vitest'
import { codeBlocks, readText, tableRows } from '../docs/markdown.ts'
import { Runbook } from '../docs/runbook.ts'
import { describeWithCurl } from '../docs/shell.ts'
import { fakeLlm } from '../support/llm/llm-proxy.ts'
import { HttpBackend } from '../support/proxy/backend.ts'
import { named, saying } from '../support/proxy/routed.ts'

describeWithCurl('every command prints what the page shows', () => {
  test('docs/runbook.md: a customer gets 429', async () => {
    const runbook = await Runbook.start()
    await runbook.follow('A customer gets 429')
  })

  test('docs/runbook.md: everything is rejected, what changed last, a bundle was refused, and one is rolled back', async () => {
    const runbook = await Runbook.start()
    await runbook.follow('Everything is rejected')
    await runbook.follow('What changed last?')
    await runbook.follow('Why does my rule not apply?')
    await runbook.follow('A bundle was refused')
    await runbook.follow('Roll back a bundle')
  })

  test('docs/runbook.md: Redis is unreachable, and which instance', async () => {
    const runbook = await Runbook.start({ EDGE_REDIS_URL: 'redis://127.0.0.1:1', EDGE_STATE_FILE: '' })
    await runbook.follow('Redis is unreachable')
    await runbook.follow('Which instance?')
  })

  test('docs/runbook.md: a provider is down, and refuses our key', async () => {
    const openai = await HttpBackend.start(saying('no', 503, { 'Retry-After': '600' }))
    const providers = { 'https://api.openai.com': openai, 'https://example.openai.azure.com': await named('azure') }
    const runbook = await Runbook.startProxy(providers)
    await runbook.run(`edge keys create team=a --reason trial --json > key.json; key=$(node -p 'require("./key.json").key')`)
    const chat = `curl -s -o /dev/null -H "Authorization: Bearer $key" -X POST http://localhost:8080/v1/chat/completions -H 'Content-Type: application/json' -d '{"model":"gpt-4o","messages":[]}'`
    for (let i = 0; i < 3; i++) await runbook.run(chat)
    await runbook.follow('A provider is down')
    openai.handler = saying('no', 401)
    await runbook.run(chat)
    await runbook.follow('A provider refuses our key')
  })

  test('docs/runbook.md: a stream hangs', async () => {
    const openai = await HttpBackend.start((_req, res) => {
      res.writeHead(200, { 'Content-Type': 'text/event-stream' }).write('data: {}\n\n')
    })
    const providers = { 'https://api.openai.com': openai, 'https://example.openai.azure.com': await named('azure') }
    const runbook = await Runbook.startProxy(providers, { EDGE_SILENT_SECONDS: '1' })
    await runbook.run(`edge keys create team=a --reason trial --json > key.json; key=$(node -p 'require("./key.json").key')`)
    const chat = `curl -s -o /dev/null -H "Authorization: Bearer $key" -X POST http://localhost:8080/v1/chat/completions -H 'Content-Type: application/json' -d '{"model":"gpt-4o","messages":[]}' &`
    for (let i = 0; i < 3; i++) await runbook.run(chat)
    await runbook.follow('A stream hangs')
  })

  test('docs/runbook.md: spend explodes, and a key leaked', async () => {
    const runbook = await Runbook.startSpending(`http://127.0.0.1:${(await fakeLlm()).port}`)
    const created = await runbook.run(`edge keys create team=search --reason 'for search'`)
    const [key] = /^edge_[\w-]{43}$/m.exec(created)!
    const [id] = /[0-9a-f]{12}/.exec(created)!
    const body = '{"model":"gpt-4o","messages":[]}'
    const chat = `curl -s -o /dev/null -w '%{http_code}' -X POST http://localhost:8080/v1/chat/completions -H 'Content-Type: application/json' -d '${body}' -H 'Authorization: Bearer ${key}'`
    expect(await runbook.run(chat)).toBe('200')
    runbook.replace('edge_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA', key)
    runbook.replace('0123456789ab', id)
    await runbook.follow('Spend explodes')
    await runbook.follow('A key leaked')
    expect(await runbook.run(chat)).toBe('401')
  })
})

describeWithCurl('docs/operations/admin-api.md', () => {
  const page = readText('docs/operations/admin-api.md')
  const lines = tableRows(page, ['Endpoint', 'What it returns']).map(([endpoint, what]) => [endpoint!.slice(1, -1), what!] as const)

  test('the curl line of every endpoint gets a response that is no error', async () => {
    const runbook = await Runbook.start()
    await runbook.run(codeBlocks(page, 'sh').at(-1)!)
    for (const [line, what] of lines) {
      if (line === 'admin GET events') continue // never ends
      if (line.startsWith('admin POST backends/')) continue // needs one that cools, as the runbook has it
      const printed = await runbook.run(line)
      if (what.startsWith('204')) {
        expect(printed, line).toBe('')
        continue
      }
      const response = JSON.parse(printed) as { error?: unknown; id?: string }
      expect(response.error, line).toBeUndefined()
      if (response.id !== undefined) runbook.replace('0123456789ab', response.id)
    }
  })
})
