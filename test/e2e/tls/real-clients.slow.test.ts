import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { bundle } from '../../support/bundles/bundles.ts'
import { describeWith } from '../../support/describe-with.ts'
import { missingUnless } from '../../support/gateways/gateway-process.ts'
import { runningNginx } from '../../support/gateways/nginx.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying } from '../../support/proxy/proxy.ts'
import { ask } from '../../support/service/http.ts'
import { running } from '../../support/service/running.ts'
import { ownPair, tlsEnv } from '../../support/tls/tls-edge.ts'

const run = promisify(execFile)
const CLIENTS = join(import.meta.dirname, '../../support/tls/clients')

interface EchoingEdge {
  readonly url: string
  readonly port: number
  /** Of the authority that a client is to trust. */
  readonly certificate: string
}

/** A proxy over TLS whose backend sends bodies back. */
async function echoing(): Promise<EchoingEdge> {
  const pair = await ownPair('DNS:localhost')
  const backend = await HttpBackend.start(async (_req, res, seen) => void res.end(await seen.body()))
  const { port } = await proxying(backend, { env: { ...tlsEnv(pair), EDGE_HOST: 'localhost' } })
  return { url: `https://localhost:${port}/a`, port, certificate: pair.path }
}

const REAL_CLIENTS: readonly (readonly [name: string, missing: string | undefined, command: readonly string[], output: RegExp])[] = [
  ["Java's HttpClient", missingUnless('java', ['--version']), ['java', join(CLIENTS, 'Client.java')], /^(?:200 HTTP_1_1 body\n){3}$/],
  ["Go's net/http", missingUnless('go', ['version']), ['go', 'run', join(CLIENTS, 'client.go')], /^(?:200 HTTP\/1\.1 body\n){3}$/],
  [
    "Python's http.client",
    missingUnless('python3', ['--version']),
    ['python3', join(CLIENTS, 'client.py')],
    /^(?:200 TLSv1\.3 body\n){3}$/,
  ],
]

for (const [name, missing, [program, ...args], output] of REAL_CLIENTS) {
  describeWith(missing, name, () => {
    test('asks three times', async () => {
      const { url, certificate } = await echoing()
      expect((await run(program!, [...args, url, certificate])).stdout).toMatch(output)
    })
  })
}

describeWith(missingUnless('curl', ['--version']), 'curl', () => {
  const options = (certificate: string): string[] => [
    '-sS',
    '--cacert',
    certificate,
    '-d',
    'body',
    '-w',
    ' %{http_code} %{http_version} %{num_connects}\n',
  ]

  test('asks twice on one connection, with each version', async () => {
    const { url, certificate } = await echoing()
    for (const version of [['--tlsv1.2', '--tls-max', '1.2'], ['--tlsv1.3']]) {
      const { stdout } = await run('curl', [...options(certificate), ...version, url, url])
      expect(stdout).toBe('body 200 1.1 1\nbody 200 1.1 0\n')
    }
  })

  test('is told of a version that is too old, and of a certificate that it does not trust', async () => {
    const { url, certificate } = await echoing()
    const old = run('curl', [...options(certificate), '--tlsv1.0', '--tls-max', '1.1', '--ciphers', 'DEFAULT@SECLEVEL=0', url])
    await expect(old).rejects.toMatchObject({ code: 35 })
    await expect(run('curl', ['-sS', url])).rejects.toMatchObject({ code: 60 })
  })
})

describeWith(missingUnless('openssl', ['version']), 'OpenSSL', () => {
  /** The protocol and the cipher that a client gets to which these options are given; undefined if none. */
  async function agreed(port: number, ...options: readonly string[]): Promise<string | undefined> {
    const args = ['s_client', '-brief', '-connect', `127.0.0.1:${port}`, ...options]
    const { stderr } = await new Promise<{ stderr: string }>((resolve) => {
      execFile('openssl', args, (_error, _stdout, stderr) => resolve({ stderr })).stdin!.end()
    })
    const [, protocol] = /^Protocol version: (.*)$/m.exec(stderr) ?? []
    return protocol && `${protocol} ${/^Ciphersuite: (.*)$/m.exec(stderr)![1]}`
  }

  test('agrees on good versions and ciphers, and on no others', async () => {
    const edge = await running({ bundle: bundle(1), env: tlsEnv(await ownPair()) })
    const results = new Map<string, string | undefined>()
    const attempts: readonly (readonly string[])[] = [
      ['-tls1', '-cipher', 'ALL@SECLEVEL=0'],
      ['-tls1_1', '-cipher', 'ALL@SECLEVEL=0'],
      ['-tls1_2'],
      ['-tls1_3'],
      ['-tls1_2', '-cipher', 'ECDHE-ECDSA-AES256-GCM-SHA384'],
      ['-tls1_2', '-cipher', 'ECDHE-ECDSA-CHACHA20-POLY1305'],
      ['-tls1_2', '-cipher', 'ECDHE-ECDSA-AES128-SHA'],
      ['-tls1_2', '-cipher', 'ECDHE-ECDSA-AES128-SHA256'],
      ['-tls1_2', '-cipher', 'AES128-GCM-SHA256'],
      ['-tls1_2', '-cipher', 'NULL@SECLEVEL=0'],
      ['-tls1_3', '-ciphersuites', 'TLS_AES_256_GCM_SHA384'],
      ['-tls1_3', '-ciphersuites', 'TLS_CHACHA20_POLY1305_SHA256'],
      ['-tls1_3', '-ciphersuites', 'TLS_AES_128_CCM_8_SHA256'],
    ]
    for (const options of attempts) results.set(options.join(' '), await agreed(edge.port, ...options))
    expect([...results.values()]).toEqual([
      undefined,
      undefined,
      'TLSv1.2 ECDHE-ECDSA-AES128-GCM-SHA256',
      'TLSv1.3 TLS_AES_128_GCM_SHA256',
      'TLSv1.2 ECDHE-ECDSA-AES256-GCM-SHA384',
      'TLSv1.2 ECDHE-ECDSA-CHACHA20-POLY1305',
      undefined,
      undefined,
      undefined,
      undefined,
      'TLSv1.3 TLS_AES_256_GCM_SHA384',
      'TLSv1.3 TLS_CHACHA20_POLY1305_SHA256',
      undefined,
    ])
  })
})

describeWith(missingUnless('nginx', ['-v']), 'nginx', () => {
  test('in front forwards over https, checks the certificate, and reuses sessions and connections', async () => {
    const edge = await echoing()
    const port = await runningNginx(
      (own) => `upstream edge { server 127.0.0.1:${edge.port}; keepalive 4; }
server {
  listen 127.0.0.1:${own};
  location / {
    proxy_pass https://edge;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_ssl_name localhost;
    proxy_ssl_server_name on;
    proxy_ssl_verify on;
    proxy_ssl_trusted_certificate ${edge.certificate};
  }
}`,
    )
    for (const body of ['one', 'two', 'x'.repeat(500_000)]) {
      expect(await ask(port, 'POST', '/a', [], body)).toMatchObject({ status: 200, body })
    }
  })
})
