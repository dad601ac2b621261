import { generateKeyPairSync } from 'node:crypto'
import { rm, stat, writeFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { publicKeyText } from '../bundle/signature.ts'
import { writingProblem } from './file-problem.ts'
import { KEYGEN_HELP } from './help.ts'

/** Makes a key pair in two files that were not there. */
export async function keygen(args: string[]): Promise<number> {
  const name = readName(args)
  if (typeof name === 'number') return name
  if (await isDirectory(name)) {
    process.stderr.write(`edge keygen: --out: ${name} is a directory; expected a file name without extension\n`)
    return 1
  }
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const publicText = publicKeyText(publicKey)
  if (!(await writeNew(`${name}.key`, privateKey.export({ format: 'pem', type: 'pkcs8' }), 0o600))) return 1
  if (!(await writeNew(`${name}.pub`, `${publicText}\n`, 0o644))) {
    await rm(`${name}.key`) // half a pair is of no use, and would stand in the way of the next try
    return 1
  }
  process.stdout.write(`private key  ${name}.key   sign with it: edge sign --key ${name}.key BUNDLE; keep it secret
public key   ${name}.pub

EDGE_CONFIG_PUBLIC_KEY=${publicText}
`)
  return 0
}

function readName(args: string[]): string | number {
  try {
    const { values } = parseArgs({ args, options: { out: { type: 'string' }, help: { type: 'boolean', short: 'h' } } })
    if (values.help) {
      process.stdout.write(KEYGEN_HELP)
      return 0
    }
    if (values.out !== '') return values.out ?? 'edge-bundle'
    process.stderr.write('edge keygen: --out: expected a file name without extension\n')
  } catch (error) {
    process.stderr.write(`edge keygen: ${(error as Error).message}\n`)
  }
  return 1
}

/** `keys/.key` would be a hidden file, and `keys.key` not where it was meant to be. */
async function isDirectory(name: string): Promise<boolean> {
  return name.endsWith('/') || ((await stat(name).catch(() => undefined))?.isDirectory() ?? false)
}

async function writeNew(path: string, content: string | Buffer, mode: number): Promise<boolean> {
  try {
    await writeFile(path, content, { flag: 'wx', mode, flush: true })
    return true
  } catch (error) {
    const isThere = (error as NodeJS.ErrnoException).code === 'EEXIST'
    const reason = isThere ? 'it already exists, and keys are never overwritten' : writingProblem(error)
    process.stderr.write(`edge keygen: ${path}: ${reason}\n`)
    return false
  }
}
