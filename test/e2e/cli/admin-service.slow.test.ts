import { request } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, onTestFinished, test, vi } from 'vitest'
import { ADMIN_ENV, ADMIN_TOKEN } from '../../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import type { Edge } from '../../support/service/edge.ts'
import { describeWithOpenssl } from '../../support/service/openssl-suite.ts'
import { finished, running, scratchDirectory } from '../../support/service/running.ts'
import { selfSigned } from '../../support/service/self-signed.ts'

const BUNDLE = bundle(
  1,
  policy('api', { rules: [bucketRule('per-key', ['header:x-k'], 2, 0.001), bucketRule('per-token', ['bearer'], 5, 0.001)] }),
  policy('open', { selector: { pathPrefix: '/open' }, rules: [bucketRule('all', [], 9)] }),
)

afterEach(() => {
  vi.unstubAllEnvs()
})

async function service(env: Readonly<Record<string, string>> = {}): Promise<Edge> {
  const edge = await running({ bundle: BUNDLE, env: { ...ADMIN_ENV, ...env } })
  vi.stubEnv('EDGE_ADMIN_URL', `http://127.0.0.1:${edge.adminPort}`)
  vi.stubEnv('EDGE_ADMIN_TOKEN', ADMIN_TOKEN)
  vi.stubEnv('USER', 'ada')
  return edge
}

describeWithOpenssl('the commands', () => {
  test('over https, below a path, with a certificate of a private authority', async () => {
    const directory = await scratchDirectory()
    const { key, cert, path } = await selfSigned(directory)
    const edge = await service()
    const proxy = createServer({ key, cert }, (req, res) => {
      const { method, headers } = req
      const options = { port: edge.adminPort, host: '127.0.0.1', method, headers, path: req.url!.replace('/ops/', '/') }
      req.pipe(request(options, (from) => from.pipe(res.writeHead(from.statusCode!, from.headers))))
    })
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void proxy.close())
    const url = `https://localhost:${(proxy.address() as AddressInfo).port}/ops`
    const env = { EDGE_ADMIN_URL: url, EDGE_ADMIN_TOKEN: ADMIN_TOKEN }
    const trusted = await finished(['counters', 'open', 'all'], { ...env, NODE_EXTRA_CA_CERTS: path })
    expect(trusted).toMatchObject({ status: 0, stderr: '' })
    const untrusted = await finished(['status'], env)
    expect(untrusted).toMatchObject({ status: 1, stdout: '' })
    expect(untrusted.stderr).toContain(
      `${url}/ is unreachable: its certificate is not trusted; for a private authority set NODE_EXTRA_CA_CERTS`,
    )
  })
})
