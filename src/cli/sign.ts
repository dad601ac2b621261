import { createPrivateKey, generateKeyPairSync, type KeyObject, sign as signBytes } from 'node:crypto'
import { readFile, rm, stat, writeFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { publicKeyText } from '../bundle/signature.ts'
import { replaceFile } from '../files/whole-file.ts'
import { readingProblem, writingProblem } from './file-problem.ts'
import { KEYGEN_HELP, SIGN_HELP } from './help.ts'
import { readBundleFile } from './read-bundle.ts'
import { printArgumentProblem } from './usage-problem.ts'

/** Signs bundles. A bundle that no instance would load is not signed, so that the mistake shows here and not in a fleet. */
export async function sign(args: string[]): Promise<number> {
  const given = readArguments(args)
  if (typeof given === 'number') return given
  const key = await readPrivateKey(given.key)
  if (key === undefined) return 1
  let status = 0
  for (const file of given.files) if (!(await signFile(file, key, given.isToStdout))) status = 1
  return status
}

interface Given {
  readonly key: string
  readonly files: readonly string[]
  readonly isToStdout: boolean
}

function readArguments(args: string[]): Given | number {
  const options = { key: { type: 'string' }, stdout: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } } as const
  try {
    const { values, positionals } = parseArgs({ args, options, allowPositionals: true })
    if (values.help) {
      process.stdout.write(SIGN_HELP)
      return 0
    }
    const { key, stdout = false } = values
    if (key === undefined) process.stderr.write(`edge sign: expected --key FILE\n\n${SIGN_HELP}`)
    else if (positionals.length === 0) process.stderr.write(`edge sign: expected at least one bundle\n\n${SIGN_HELP}`)
    else if (stdout && positionals.length > 1) process.stderr.write('edge sign: --stdout: expected exactly one bundle\n')
    else return { key, files: positionals, isToStdout: stdout }
  } catch (error) {
    return printArgumentProblem(error, 'sign', SIGN_HELP)
  }
  return 1
}

async function readPrivateKey(file: string): Promise<KeyObject | undefined> {
  try {
    const key = createPrivateKey(await readFile(file))
    if (key.asymmetricKeyType === 'ed25519') return key
    process.stderr.write(`${file}: expected an Ed25519 key, got one for ${key.asymmetricKeyType}\n`)
  } catch (error) {
    const isUnread = (error as NodeJS.ErrnoException).syscall !== undefined
    const reason = isUnread ? readingProblem(error) : 'it is not an unencrypted private key in PEM format'
    process.stderr.write(`${file}: ${reason}\n`)
  }
  return undefined
}

async function signFile(file: string, key: KeyObject, isToStdout: boolean): Promise<boolean> {
  const read = await readBundleFile(file, { isStrict: true })
  if (read === undefined) return false
  const signature = `${signBytes(null, read.bytes, key).toString('base64')}\n`
  if (isToStdout) {
    process.stdout.write(signature)
    return true
  }
  const path = `${file}.sig`
  try {
    await replaceFile(path, (handle) => handle.writeFile(signature), { mode: 0o644 })
  } catch (error) {
    process.stderr.write(`${path}: ${writingProblem(error)}\n`)
    return false
  }
  process.stdout.write(`${path}: signature of version ${read.bundle.version}\n`)
  return true
}

/** Creates a key pair in two new files. */
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
    await rm(`${name}.key`) // half a pair is useless and would block the next attempt
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
    return printArgumentProblem(error, 'keygen', KEYGEN_HELP)
  }
  return 1
}

/** A directory is refused: `keys/.key` would be a hidden file, and `keys.key` would not be in the directory. */
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
