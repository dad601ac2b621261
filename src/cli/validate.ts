import { parseArgs } from 'node:util'
import { heldRuleNote, heldRules } from '../policy/held-rules.ts'
import { VALIDATE_HELP } from './help.ts'
import { readBundle } from './read-bundle.ts'

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
    process.stderr.write(`edge validate: expected at least one file\n\n${VALIDATE_HELP}`)
  } catch (error) {
    process.stderr.write(`edge validate: ${(error as Error).message}\n`)
  }
  return 1
}

async function validateFile(file: string): Promise<boolean> {
  const read = await readBundle(file)
  if (read === undefined) return false
  for (const rule of heldRules(read.limits)) process.stderr.write(`${file}: note: ${heldRuleNote(rule)}\n`)
  const { version, policyCount } = read.bundle
  const count = policyCount === 1 ? '1 policy' : `${policyCount} policies`
  process.stdout.write(`${file}: ok, version ${version}, ${count}\n`)
  return true
}
