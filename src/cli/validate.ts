import { readFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { formatOf, parseBundle } from '../policy/parse.ts'
import { formatProblem, type Problem } from '../policy/problem.ts'
import { VALIDATE_HELP } from './help.ts'

export async function validate(args: string[]): Promise<number> {
  const files = readFiles(args)
  if (typeof files === 'number') return files
  let status = 0
  for (const file of files) if (!(await validateFile(file))) status = 1
  return status
}

function readFiles(args: string[]): string[] | number {
  try {
    const { values, positionals } = parseArgs({ args, options: { help: { type: 'boolean', short: 'h' } }, allowPositionals: true })
    if (values.help) {
      process.stdout.write(VALIDATE_HELP)
      return 0
    }
    if (positionals.length > 0) return positionals
    process.stderr.write(`edge validate: which file?\n\n${VALIDATE_HELP}`)
  } catch (error) {
    process.stderr.write(`edge validate: ${(error as Error).message}\n`)
  }
  return 1
}

async function validateFile(file: string): Promise<boolean> {
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(await readFile(file))
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    const reason =
      code === 'ENOENT' ? 'there is no such file' : code === 'ERR_ENCODING_INVALID_ENCODED_DATA' ? 'it is not UTF-8 text' : message
    process.stderr.write(`${file}: ${reason}\n`)
    return false
  }
  const parsed = parseBundle(text, formatOf(file))
  print(file, 'warning', parsed.warnings)
  if (!parsed.ok) {
    print(file, 'error', parsed.problems)
    return false
  }
  const { bundle_version, policies } = parsed.bundle
  const count = policies.length === 1 ? '1 policy' : `${policies.length} policies`
  process.stdout.write(`${file}: ok, version ${bundle_version}, ${count}\n`)
  return true
}

function print(file: string, kind: string, problems: readonly Problem[]): void {
  for (const problem of problems) process.stderr.write(`${file}: ${kind}: ${formatProblem(problem)}\n`)
}
