import { execFile } from 'node:child_process'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { describeWithOpenssl } from '../../test/support/service/openssl-suite.ts'
import { scratchDirectory } from '../../test/support/service/running.ts'
import { selfSigned } from '../../test/support/service/self-signed.ts'

const SCRIPT = `
const { getDocument } = await import(process.argv[1])
const fixed = { accept: '*/*', userAgent: 'edge/test', maxBytes: 100, timeoutMs: 600_000, signal: new AbortController().signal }
console.log(await getDocument({ url: new URL(process.argv[2]), ...fixed }).then(String, ({ message }) => message))
`

describeWithOpenssl('over TLS', () => {
  test('a certificate that nobody vouches for is refused, one that NODE_EXTRA_CA_CERTS vouches for is not, and its name must be right', async () => {
    const certificate = await selfSigned(await scratchDirectory({ onTestFinished }))
    const server = createServer(certificate, (_req, res) => res.end('document'))
    server.on('tlsClientError', () => {}) // those who do not trust it
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const { port } = server.address() as AddressInfo
    expect(await fetched(`https://localhost:${port}/`, '')).toBe('self-signed certificate')
    expect(await fetched(`https://localhost:${port}/`, certificate.path)).toBe('document')
    expect(await fetched(`https://127.0.0.1:${port}/`, certificate.path)).toContain('does not match certificate')
  })
})

/** Node reads NODE_EXTRA_CA_CERTS once, when a process starts. */
async function fetched(url: string, authorities: string): Promise<string> {
  const typescript = join(import.meta.dirname, '../../test/support/run/typescript.mjs')
  const args = ['--no-warnings', '--import', typescript, '--input-type=module', '-e', SCRIPT, join(import.meta.dirname, 'http-get.ts'), url]
  const { stdout } = await promisify(execFile)(process.execPath, args, { env: { ...process.env, NODE_EXTRA_CA_CERTS: authorities } })
  return stdout.trim()
}
