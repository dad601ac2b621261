import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { newScratchDirectory } from '../support/scratch.mjs'

/** Makes a certificate that signs itself, with a P-256 key. */
export function newCertificate(openssl) {
  const directory = newScratchDirectory()
  const [certificate, key] = [join(directory, 'tls.crt'), join(directory, 'tls.key')]
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1']
  const type = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
  const { status, stderr } = spawnSync(openssl, ['req', '-x509', ...type, '-keyout', key, '-out', certificate, '-days', '30', ...subject])
  if (status !== 0) throw new Error(`openssl makes no certificate: ${stderr}`)
  return { certificate, key }
}
