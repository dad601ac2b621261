import { copyFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { bundle } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { metric } from '../../support/service/metrics.ts'
import { running, scratchDirectory } from '../../support/service/running.ts'
import { type Certificate, selfSigned } from '../../support/service/self-signed.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { TlsClient } from '../../support/tls/tls-client.ts'
import { QUESTION, replaceBoth, replaceBy, replacingPause, tlsEnv } from '../../support/tls/tls-edge.ts'
import { until } from '../../support/until.ts'

async function namesNow({ port }: Edge): Promise<string | undefined> {
  return (await TlsClient.connected(port)).names
}

interface Renewal {
  readonly edge: Edge
  readonly used: Certificate
  readonly next: Certificate
}

/** `isPatient` if problems of files are never reported, else they are at once. */
async function renewal(env: Readonly<Record<string, string>>, isPatient: boolean): Promise<Renewal> {
  const directory = await scratchDirectory()
  const used = await selfSigned(directory, 'DNS:old.test', 'used')
  const next = await selfSigned(directory, 'DNS:new.test', 'next')
  const edge = await running({ bundle: bundle(1), env: { ...tlsEnv(used), ...env }, pause: replacingPause(!isPatient) })
  return { edge, used, next }
}

describe('a renewed certificate', () => {
  test('serves new connections, while open ones go on', async () => {
    const { edge, used, next } = await renewal({ EDGE_ADMIN_PORT: '0' }, true)
    const before = await TlsClient.connected(edge.port)
    expect(before.names).toBe('DNS:old.test')
    await replaceBoth(used, next)
    const [line] = await untilLogged(edge, 'tls_reloaded')
    expect(line).toMatchObject({ file: used.path, names: ['new.test'] })
    await until(async () => (await namesNow(edge)) === 'DNS:new.test')
    expect(await before.ask(QUESTION)).toMatch(/^HTTP\/1.1 200 /)
    const expiry = await metric(edge.adminPort, `edge_tls_certificate_expiry_seconds{file="${used.path}"}`)
    expect(expiry).toBe(Date.parse(String(line!['expires_at'])) / 1000)
    expect(edge.logged('tls_failed')).toEqual([])
  })

  test('may come in two steps, in either order, without anybody being told of a problem', async () => {
    const { edge, used, next } = await renewal({}, true)
    const old = { ...next, path: `${used.path}.old`, keyPath: `${used.keyPath}.old` }
    await copyFile(used.path, old.path)
    await copyFile(used.keyPath, old.keyPath)
    await replaceBy(used.path, next.path)
    await replaceBy(used.keyPath, next.keyPath)
    await untilLogged(edge, 'tls_reloaded')
    await replaceBy(used.keyPath, old.keyPath)
    await replaceBy(used.path, old.path)
    await untilLogged(edge, 'tls_reloaded', 2)
    expect(edge.logged('tls_failed')).toEqual([])
  })

  test('fails no request: neither open streams, nor requests on open connections, nor new connections', async () => {
    const directory = await scratchDirectory()
    const [used, a, b] = [
      await selfSigned(directory, 'DNS:a.test', 'used'),
      await selfSigned(directory, 'DNS:a.test', 'a'),
      await selfSigned(directory, 'DNS:b.test', 'b'),
    ]
    const streams = new Set<(text: string) => void>()
    const backend = await HttpBackend.start((req, res) => {
      if (req.url === '/stream') streams.add((text) => void res.write(text))
      else res.end('hello')
    })
    const edge = await proxying(backend, { env: tlsEnv(used), pause: replacingPause(false) })
    const stream = await TlsClient.connected(edge.port)
    stream.send('GET /stream HTTP/1.1\r\nHost: a\r\n\r\n')
    const kept = await TlsClient.connected(edge.port)
    await until(() => streams.size === 1)
    let isOver = false
    let answered = 0
    const asking = (async () => {
      while (!isOver) {
        const fresh = await TlsClient.connected(edge.port)
        const answers = await Promise.all([fresh, kept].map((client) => client.ask('GET / HTTP/1.1\r\nHost: a\r\n\r\n')))
        for (const answer of answers) expect(answer).toMatch(/^HTTP\/1.1 200 /)
        for (const say of streams) say(`data: ${answered}\n\n`)
        fresh.socket.destroy()
        answered++
      }
    })()
    for (let round = 1; round <= 4; round++) {
      await replaceBoth(used, round % 2 === 1 ? b : a)
      await untilLogged(edge, 'tls_reloaded', round)
      const before = answered
      await until(() => answered > before + 2)
    }
    isOver = true
    await asking
    await until(() => stream.received.includes(`data: ${answered - 1}\n`))
    expect([stream.isClosed, kept.isClosed, edge.logged('tls_failed')]).toEqual([false, false, []])
  })
})

describe('a pair that does not fit', () => {
  test.each([
    [
      'the key of another certificate',
      (p: Renewal) => replaceBy(p.used.keyPath, p.next.keyPath),
      /EDGE_TLS_KEY_FILE: .*used\.key is not the private key of its certificate/,
    ],
    ['no key', (p: Renewal) => writeFile(p.used.keyPath, 'secret-canary'), /EDGE_TLS_KEY_FILE: .*used\.key is not a private key in PEM/],
    [
      'no certificate',
      (p: Renewal) => writeFile(p.used.path, '-----BEGIN CERTIFICATE-----\nAAAA'),
      /EDGE_TLS_CERT_FILE: .*used\.pem is not a certificate in PEM/,
    ],
    ['a file that is gone', (p: Renewal) => rm(p.used.path), /EDGE_TLS_CERT_FILE: cannot read .*used\.pem: ENOENT/],
  ])('leaves the old one in use, with an event, a problem and a metric: %s', async (_what, damage, problem) => {
    const renewed = await renewal(ADMIN_ENV, false)
    const { edge, used, next } = renewed
    await damage(renewed)
    const [line] = await untilLogged(edge, 'tls_failed')
    expect(line).toMatchObject({ file: used.path, problem: expect.stringMatching(problem) })
    expect(JSON.stringify(edge.log)).not.toContain('secret-canary')
    expect(await namesNow(edge)).toBe('DNS:old.test')
    const failing = `edge_tls_file_failing{file="${used.path}"}`
    expect(await metric(edge.adminPort, failing)).toBe(1)
    const problems = async () =>
      ((await askAdmin(edge.adminPort, 'GET', 'status')).json as { problems: { code: string }[] }).problems.map(({ code }) => code)
    await until(async () => (await problems()).includes('tls_failed'))
    await replaceBoth(used, next)
    await untilLogged(edge, 'tls_reloaded')
    expect(await metric(edge.adminPort, failing)).toBe(0)
    await until(async () => !(await problems()).includes('tls_failed'))
    await until(async () => (await namesNow(edge)) === 'DNS:new.test')
  })

  test('is over as well when the old files come back', async () => {
    const { edge, used, next } = await renewal({}, false)
    await copyFile(used.keyPath, join(edge.directory, 'kept'))
    await replaceBy(used.keyPath, next.keyPath)
    await untilLogged(edge, 'tls_failed')
    await replaceBy(used.keyPath, join(edge.directory, 'kept'))
    await untilLogged(edge, 'tls_reloaded')
    expect(await namesNow(edge)).toBe('DNS:old.test')
  })
})
