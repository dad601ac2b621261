import { afterEach, describe, expect, test, vi } from 'vitest'
import { ADMIN_ENV, ADMIN_TOKEN, askAdmin } from '../../support/admin/admin-client.ts'
import { bundle } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { named, routing, saying } from '../../support/proxy/routed.ts'
import { command } from '../../support/service/command.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'

afterEach(() => {
  vi.unstubAllEnvs()
})

function asking(edge: Edge): Edge {
  vi.stubEnv('EDGE_ADMIN_URL', `http://127.0.0.1:${edge.adminPort}`)
  vi.stubEnv('EDGE_ADMIN_TOKEN', ADMIN_TOKEN)
  vi.stubEnv('USER', 'ada')
  return edge
}

async function chat(edge: Edge, times: number): Promise<void> {
  const headers = { 'Content-Type': 'application/json' }
  for (let i = 0; i < times; i++) {
    const body = '{"model":"gpt-4o","messages":[]}'
    await (await fetch(`http://127.0.0.1:${edge.port}/v1/chat/completions`, { method: 'POST', headers, body })).arrayBuffer()
  }
}

describe('edge backends', () => {
  const ROUTES = [
    {
      selector: { pathPrefix: '/v1', methods: ['POST'], hosts: ['llm.example'], exceptPaths: ['/v1/files'] },
      match: { 'header:x-tier': 'gold' },
      backends: [{ name: 'openai', weight: 3 }, { name: 'azure' }],
      stick_to: ['ip:address'],
    },
    {
      backends: [{ name: 'openai' }],
      fallback: [{ name: 'azure', model: 'small' }],
      retry: { on: ['5xx', 429], attempts: 2 },
    },
  ]

  test('shows the backends, their states, the routes and the last resort, and has one tried again', async () => {
    const [openai, azure] = [await HttpBackend.start(saying('no', 503, { 'Retry-After': '600' })), await named('azure')]
    const clock = new ManualClock()
    const env = { ...ADMIN_ENV, EDGE_BACKEND_MAX_CONNECTIONS: '20', EDGE_SECRET_A: 'canary' }
    const more = { openai: { headers: { authorization: 'Bearer {A}' }, open: true } }
    const edge = asking(await routing({ openai, azure }, ROUTES, { clock, more, env }))
    const routes = `
  routes[0]  POST /v1* except /v1/files on llm.example by header:x-tier: openai 3 of 4, azure 1 of 4, by ip:address (1 retry)
  routes[1]  all requests: openai, then azure as small (2 retries)

A request that no route covers gets 404: EDGE_BACKEND_URL is not set.
`
    expect((await command('backends')).stdout).toBe(`  BACKEND  CONNECTIONS  WAITING  ROUTES    STATE
  openai       0 of 10        0  [0], [1]  healthy
  azure        0 of 10        0  [0], [1]  healthy
${routes}`)
    expect((await command('status')).stdout).toContain('  backends  2 of 2 healthy\n')
    await chat(edge, 3)
    const failing = 'cooling until 2026-01-15T12:10:00Z, failing since 2026-01-15T12:00:00Z (5xx)'
    expect((await command('backends')).stdout).toMatch(/ {2}openai {7}\d of 10 {8}0 {2}\[0\], \[1\] {2}cooling until .*\n/)
    const { stdout } = await command('status')
    expect(stdout).toContain(`  backends  1 of 2 healthy; openai ${failing}\n`)
    expect(stdout).toContain('1 problem:\n  backend_cooling since 2026-01-15T12:00:00Z\n    backend openai fails, 3 times in a row: ')
    const { stdout: json } = await command('backends', '--json')
    expect(JSON.parse(json)).toEqual((await askAdmin(edge.adminPort, 'GET', 'backends')).json)
    const retried = await command('backends', 'retry', 'openai', '--reason', 'it is back')
    expect(retried.stdout).toBe(`The next request tries it, at this instance.

backend       openai, ${openai.url}
state         one request at a time tries it, failing since 2026-01-15T12:00:00Z (5xx)
last failure  5xx, 2026-01-15T12:00:00Z
`)
    expect(await untilLogged(edge, 'backend_retried')).toMatchObject([{ actor: 'ada', reason: 'it is back', backend: 'openai' }])
    expect((await command('changes')).stdout).toContain('  ada  backend openai tried again at once: it is back\n')
    openai.handler = saying('slow down', 429)
    clock.advance(1)
    await chat(edge, 1)
    expect((await command('backends')).stdout).toContain('healthy; model gpt-4o cooling until 2026-01-15T12:00:01Z (429)\n')
    const { stdout: model } = await command('backends', 'retry', 'openai', '--reason', 'more quota')
    expect(model).toContain('\nmodel         gpt-4o, tried by one request at a time (429)\n')
    expect(JSON.stringify([stdout, json, retried])).not.toContain('canary')
  })

  test('says where requests go if there are no routes, and that nothing is forwarded', async () => {
    const proxy = { ...ADMIN_ENV, EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_URL: 'http://127.0.0.1:1', EDGE_BACKEND_MAX_CONNECTIONS: '7' }
    asking(await running({ bundle: bundle(1), env: proxy }))
    expect((await command('backends')).stdout).toBe(
      'No route of the active bundle is in use.\n\nAll requests go to EDGE_BACKEND_URL, http://127.0.0.1:1: 0 of 7 connections, 0 waiting.\n',
    )
    asking(await running({ bundle: bundle(1), env: ADMIN_ENV }))
    expect((await command('backends')).stdout).toBe('No route of the active bundle is in use.\n\nNothing is forwarded.\n')
    expect((await command('status')).stdout).not.toContain('backends')
  })

  test('counts routes beyond the first hundred, and says where the rest goes', async () => {
    const a = await named('a')
    const routes = Array.from({ length: 120 }, (_, i) => ({ selector: { pathExact: `/r${i}` }, backends: [{ name: 'a' }] }))
    asking(
      await routing({ a }, routes, { env: { ...ADMIN_ENV, EDGE_BACKEND_URL: 'http://127.0.0.1:1', EDGE_BACKEND_MAX_CONNECTIONS: '9' } }),
    )
    const { stdout } = await command('backends')
    expect(stdout).toContain('[0], [1], [2], [3], [4], [5], [6], [7], …  healthy\n')
    expect(stdout).toContain('  routes[99]  /r99: a (1 retry)\n  and 20 more routes\n')
    expect(stdout).toContain('\nRequests that no route covers go to EDGE_BACKEND_URL, http://127.0.0.1:1: ')
  })

  test('refuses what it does not understand, and passes on what the instance refuses', async () => {
    const a = await named('a')
    const edge = asking(await routing({ a }, [{ backends: [{ name: 'a' }] }], { env: ADMIN_ENV }))
    for (const [line, problem] of [
      ['retry', 'retry: expected the name of one backend'],
      ['retry a b --reason r', 'retry: expected the name of one backend'],
      ['stop a', 'expected nothing, or retry NAME, got "stop"'],
      ['--reason r', '--actor and --reason are for retry NAME'],
      ['retry a', 'expected --reason TEXT: the log says why something was changed'],
      ['retry a --reason r', 'backend "a" does not cool, so there is nothing to retry (not_cooling)'],
      ['retry a/b --reason r', 'there is no backend "a%2Fb" in the active bundle (unknown_backend)'],
    ] as const) {
      const { status, stderr } = await command('backends', ...line.split(' '))
      expect([line, status, stderr]).toEqual([line, 1, expect.stringContaining(`edge backends: ${problem}`)])
    }
    expect(edge.logged('backend_retried')).toEqual([])
  })
})
