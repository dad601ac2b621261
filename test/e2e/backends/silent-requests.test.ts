import { describe, expect, test } from 'vitest'
import type { ProblemJson } from '../../../src/admin/api/instance-types.ts'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { RawClient } from '../../support/proxy/proxy.ts'
import { routing, WIRES } from '../../support/proxy/routed.ts'
import type { Edge } from '../../support/service/edge.ts'
import { until } from '../../support/until.ts'

const SILENT = { EDGE_SILENT_SECONDS: '0.3' }
const to = (name: string) => ({ backends: [{ name }] })
const ask = (path: string, rest = '') => `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n${rest}`

async function problems(edge: Edge): Promise<ProblemJson[]> {
  return (await askAdmin(edge.adminPort, 'GET', 'status')).json.problems
}

/** The messages of what is silent now, without the time that the longest one has been. */
async function silent(edge: Edge): Promise<string[]> {
  const found = (await problems(edge)).filter(({ code }) => code === 'requests_silent')
  return found.map(({ message }) => message.replace(/(?:longest )?for [\d.]+ s:/, 'N s:').replace(/, the N/, ', N'))
}

describe.each(WIRES)('requests to which a backend sends nothing for too long, on %s', (_, env) => {
  test('are one problem, with their number, their backends and since when, until they go on', async () => {
    const heads: (() => void)[] = []
    const streaming = await HttpBackend.start((_req, res) => {
      res.writeHead(200, { 'Content-Type': 'text/event-stream' }).write('data: 1\n\n')
      heads.push(() => void res.end('data: 2\n\n'))
    })
    const mute = await HttpBackend.start(() => {})
    const edge = await routing(
      { azure: streaming, openai: mute },
      [
        { selector: { pathPrefix: '/stream' }, ...to('azure') },
        { selector: { pathPrefix: '/mute' }, ...to('openai') },
      ],
      { env: { ...env, ...ADMIN_ENV, ...SILENT } },
    )
    const streams = [1, 2, 3].map(() => RawClient.connect(edge.port))
    for (const client of streams) client.send(ask('/stream', 'abc'))
    for (const client of streams) await client.sees('data: 1')
    await until(async () => (await silent(edge)).length > 0)
    const since = Date.parse((await problems(edge)).find(({ code }) => code === 'requests_silent')!.since)
    expect(Date.now() - since).toBeGreaterThanOrEqual(300)
    await until(async () => (await silent(edge))[0] === '3 requests have been silent for over 0.3 s, N s: backend azure')

    const waiting = RawClient.connect(edge.port)
    waiting.send(ask('/mute', 'abc'))
    await until(async () => (await silent(edge))[0]?.endsWith('N s: backend azure (3), backend openai (1)') === true)
    for (const finish of heads) finish()
    for (const client of streams) await client.sees('data: 2')
    await until(async () => (await silent(edge))[0] === '1 request has been silent N s: backend openai')
    waiting.socket.destroy()
    await until(async () => (await silent(edge)).length === 0)
  })

  test('are not those whose client is silent itself, nor connections that nobody uses', async () => {
    const backend = await HttpBackend.start(async (_req, res, { body }) => void res.end(await body()))
    const mute = await HttpBackend.start(() => {})
    const edge = await routing({ backend, mute }, [{ selector: { pathPrefix: '/mute' }, ...to('mute') }, to('backend')], {
      env: { ...env, ...ADMIN_ENV, ...SILENT },
    })
    const uploading = RawClient.connect(edge.port)
    uploading.send(ask('/upload', 'ab'))
    const done = RawClient.connect(edge.port)
    done.send(ask('/done', 'abc'))
    await done.sees('abc')
    // By the time that this one is silent, the others would be.
    const waiting = RawClient.connect(edge.port)
    waiting.send(ask('/mute', 'abc'))
    await until(async () => (await silent(edge)).length > 0)
    expect(await silent(edge)).toEqual(['1 request has been silent N s: backend mute'])
    uploading.send('c')
    await uploading.sees('abc')
  })
})
