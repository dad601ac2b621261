import { execFileSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

export interface Certificate {
  readonly key: Buffer
  readonly cert: Buffer
  readonly keyPath: string
  /** For NODE_EXTRA_CA_CERTS. */
  readonly path: string
}

/** A certificate of our own making for these names, in this directory. */
export async function selfSigned(directory: string, names = 'DNS:localhost'): Promise<Certificate> {
  const [keyPath, path] = [join(directory, 'tls.key'), join(directory, 'tls.pem')]
  const kind = ['-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2']
  const subject = ['-subj', '/CN=edge test', '-addext', `subjectAltName=${names}`]
  execFileSync('openssl', ['req', ...kind, ...subject, '-keyout', keyPath, '-out', path], { stdio: 'pipe' })
  return { key: await readFile(keyPath), cert: await readFile(path), keyPath, path }
}
