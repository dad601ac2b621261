import { posix } from 'node:path'
import { readText } from '../docs/markdown.ts'

/**
 * What the exported types of a module of `dist/` promise, a line for each member of an interface, `Rejected.reason: RejectReason`, and for each alias. What may be
 * one of several has a line for each, so that one more adds a line and changes none. A base that is not exported counts as part of what extends it.
 */
export function typeLines(index: string): string[] {
  const exported = new Map(declarationsOf(index))
  for (const [, names, from] of readText(index).matchAll(/^export (?:type )?\{([^}]+)\} from '(.+)\.ts';$/gm)) {
    const declarations = declarationsOf(posix.join(posix.dirname(index), `${from}.d.ts`))
    for (const name of names!.split(',').map((each) => each.replace('type ', '').trim())) {
      const declaration = declarations.get(name)
      if (declaration === undefined) throw new Error(`${from}.d.ts does not declare ${name}`)
      exported.set(name, declaration)
    }
  }
  return [...exported].flatMap(([name, declaration]) => linesOf(name, declaration))
}

interface Declaration {
  readonly text: string
  /** The others of its file. */
  readonly beside: ReadonlyMap<string, Declaration>
}

function declarationsOf(file: string): Map<string, Declaration> {
  const beside = new Map<string, Declaration>()
  const text = readText(file).replace(/^ *\/\*\*.*?\*\/\n/gms, '')
  for (const each of text.split(/^(?=(?:export|declare|interface|type|function|import) )/m)) {
    const [, name] = /^(?:export )?(?:declare )?(?:interface|type|function) (\w+)/.exec(each) ?? []
    if (name !== undefined) beside.set(name, { text: each, beside })
  }
  return beside
}

function linesOf(name: string, { text, beside }: Declaration): string[] {
  const [, bases, body] = /^(?:export )?interface \w+(?: extends ([^{]+))? \{\n(.*)^\}/ms.exec(text) ?? []
  if (body === undefined) return waysOf(`${name}: ${inOneLine(text.replace(/^(?:export )?(?:declare )?(?:type|function) \w+(?: =)?/, ''))}`)
  const members = body.split(/^ {4}(?=[^\s}])/m).filter((member) => member !== '')
  const inherited = (bases?.split(', ') ?? []).flatMap((base) => {
    const declaration = beside.get(base)
    return declaration === undefined ? [`${name} extends ${base}`] : linesOf(name, declaration)
  })
  return [...inherited, ...members.flatMap((member) => waysOf(`${name}.${inOneLine(member)}`))]
}

/** A type that is not made of simple names is one line. */
function waysOf(line: string): string[] {
  const [, name, ways] = /^([\w.? ]+): ([^{([<]+)$/.exec(line) ?? []
  if (name === undefined || !ways!.includes(' | ')) return [line]
  return ways!.split(' | ').map((way) => `${name}: ${way}`)
}

function inOneLine(text: string): string {
  return text.trim().replace(/;$/, '').replace(/\s+/g, ' ')
}
