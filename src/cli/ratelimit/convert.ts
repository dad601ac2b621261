import { parseArgs } from 'node:util'
import { dump } from 'js-yaml'
import { MAX_BUNDLE_BYTES } from '../../bundle/bundle-source.ts'
import { readFileBounded } from '../../files/whole-file.ts'
import { parseBundle } from '../../policy/parse.ts'
import { type Problem, problemLine, show } from '../../text/problem.ts'
import { readingProblem } from '../file-problem.ts'
import { CONVERT_HELP } from '../help.ts'
import { printArgumentProblem } from '../usage-problem.ts'
import { type Configuration, readConfiguration } from './configuration.ts'
import { NameList, translate } from './translation.ts'

/** Prints the bundle that corresponds to the configuration files of another limiter. */
export async function convert(args: string[]): Promise<number> {
  const given = readArguments(args)
  if (typeof given === 'number') return given
  const configurations = await readAll(given.files)
  return configurations === undefined ? 1 : printBundle(given.version, configurations)
}

interface Given {
  readonly files: readonly string[]
  readonly version: number | string
}

function readArguments(args: string[]): Given | number {
  const options = { 'bundle-version': { type: 'string', default: '1' }, help: { type: 'boolean', short: 'h' } } as const
  try {
    const { values, positionals } = parseArgs({ args, options, allowPositionals: true })
    if (values.help) {
      process.stdout.write(CONVERT_HELP)
      return 0
    }
    const [format, ...files] = positionals
    const version = values['bundle-version']
    if (format !== 'ratelimit') process.stderr.write(`edge convert: expected ratelimit${got(format)}\n\n${CONVERT_HELP}`)
    else if (files.length === 0) process.stderr.write(`edge convert: expected at least one file\n\n${CONVERT_HELP}`)
    else if (!/^\d{1,30}$/.test(version)) {
      process.stderr.write(`edge convert: --bundle-version: expected a whole number of up to 30 digits, got ${show(version)}\n`)
    } else return { files, version: Number.isSafeInteger(Number(version)) ? Number(version) : version }
  } catch (error) {
    return printArgumentProblem(error, 'convert', CONVERT_HELP)
  }
  return 1
}

function got(format: string | undefined): string {
  return format === undefined ? '' : `, the only supported format, got ${show(format)}`
}

interface NamedConfiguration extends Configuration {
  readonly file: string
}

/** Prints all problems. Returns undefined if a file cannot be used. */
async function readAll(files: readonly string[]): Promise<readonly NamedConfiguration[] | undefined> {
  const read = new Map<string, NamedConfiguration>()
  let isGood = true
  for (const file of files) {
    const problems: Problem[] = []
    const configuration = await readOne(file, problems)
    const first = configuration && read.get(configuration.domain)
    if (first !== undefined) problems.push({ path: 'domain', message: `${show(first.domain)} is already the domain of ${first.file}` })
    else if (configuration !== undefined) read.set(configuration.domain, { ...configuration, file })
    print(file, 'error', problems)
    isGood &&= problems.length === 0
  }
  return isGood ? [...read.values()] : undefined
}

async function readOne(file: string, problems: Problem[]): Promise<Configuration | undefined> {
  let bytes: Buffer
  try {
    bytes = await readFileBounded(file, MAX_BUNDLE_BYTES)
  } catch (error) {
    problems.push({ path: '', message: readingProblem(error) })
    return undefined
  }
  const read = readConfiguration(bytes.toString('utf8').replace(/^\ufeff/, ''))
  if ('configuration' in read) return read.configuration
  problems.push(...read.problems)
  return undefined
}

/** Depth from which the YAML is written on one line: the members of a rule. */
const FLOW_LEVEL = 6

/** Names what cannot be expressed and prints the rest; the operator decides whether that is enough. */
function printBundle(version: number | string, configurations: readonly NamedConfiguration[]): number {
  const ids = new NameList()
  const policies: object[] = []
  let hasGaps = false
  for (const configuration of configurations) {
    const { file } = configuration
    const translation = translate(configuration, ids)
    if (translation === undefined) {
      print(file, 'error', [{ path: '', message: 'its bundle would have more values than a bundle may have' }])
      return 1
    }
    print(file, 'not converted', translation.gaps)
    print(file, 'note', translation.notes)
    hasGaps ||= translation.gaps.length > 0
    for (const policy of translation.policies) policies.push(policy)
  }
  const text = dump({ bundle_version: version, policies }, { flowLevel: FLOW_LEVEL, lineWidth: -1, noRefs: true })
  const parsed = parseBundle(text, 'yaml')
  if (!parsed.ok) {
    print('the bundle', 'error', parsed.problems)
    return 1
  }
  process.stdout.write(text)
  return hasGaps ? 1 : 0
}

function print(file: string, kind: string, problems: readonly Problem[]): void {
  for (const problem of problems) process.stderr.write(`${problemLine(file, kind, problem)}\n`)
}
