import { type Owner, scratchDirectory, thisTest } from '../service/running.ts'
import { selfSigned } from '../service/self-signed.ts'
import { serverPort } from '../service/server-port.ts'
import { type RedisServer, runningRedis } from './redis-server.ts'

export interface TlsRedis {
  readonly redis: RedisServer
  /** Where it speaks TLS. */
  readonly address: string
  /** For NODE_EXTRA_CA_CERTS. */
  readonly certificatePath: string
}

/** A Redis that speaks TLS too, with a certificate of our own making, for as long as the test runs. */
export async function runningTls(owner: Owner = thisTest): Promise<TlsRedis> {
  const { path, keyPath } = await selfSigned(await scratchDirectory(owner), 'IP:127.0.0.1')
  const port = await serverPort()
  const files = ['--tls-key-file', keyPath, '--tls-cert-file', path, '--tls-ca-cert-file', path]
  const redis = await runningRedis({ args: ['--tls-port', String(port), '--tls-auth-clients', 'no', ...files] }, owner)
  return { redis, address: `127.0.0.1:${port}`, certificatePath: path }
}
