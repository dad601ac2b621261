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

/** A certificate of our own making for these names, in this directory: `<file>.pem` and `<file>.key`. */
export function selfSigned(directory: string, names = 'DNS:localhost', file = 'tls'): Promise<Certificate> {
  return made(directory, file, ['-x509', '-addext', `subjectAltName=${names}`])
}

/** A certificate that this authority has issued. */
export function issued(directory: string, file: string, authority: Certificate): Promise<Certificate> {
  return made(directory, file, ['-x509', '-CA', authority.path, '-CAkey', authority.keyPath, '-addext', 'basicConstraints=CA:FALSE'])
}

async function made(directory: string, file: string, kind: readonly string[]): Promise<Certificate> {
  const [keyPath, path] = [join(directory, `${file}.key`), join(directory, `${file}.pem`)]
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2']
  execFileSync('openssl', ['req', ...kind, ...key, '-subj', `/CN=${file} of edge test`, '-keyout', keyPath, '-out', path], {
    stdio: 'pipe',
  })
  return { key: await readFile(keyPath), cert: await readFile(path), keyPath, path }
}
