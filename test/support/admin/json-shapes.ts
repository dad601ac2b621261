import { createVirtualFileSystem } from 'typescript/unstable/fs'
import { API, type Checker, SymbolFlags, type Type, TypeFlags, type TypeReference } from 'typescript/unstable/sync'

/**
 * The shapes of JSON values by name, in words that are the same for a type and for a schema: `{ id: string; values?: { *: string } | null }`. Bounds,
 * patterns and formats are not part of a shape, and an integer is a number.
 */
export type Shapes = Readonly<Record<string, string>>

export type Sources = Readonly<Record<string, string>>

const ROOT = '/types'
const OPTIONS = {
  strict: true,
  exactOptionalPropertyTypes: true,
  noEmit: true,
  lib: ['es5'],
  types: [],
  module: 'nodenext',
  allowImportingTsExtensions: true,
}

/** Of the exported types of these files, which import nothing but each other. */
export function typeShapes(sources: Sources): Shapes {
  const files = Object.fromEntries(Object.entries(sources).map(([name, text]) => [`${ROOT}/${name}`, text]))
  const config = { compilerOptions: OPTIONS, files: Object.keys(files) }
  const api = new API({ cwd: ROOT, fs: createVirtualFileSystem({ ...files, [`${ROOT}/tsconfig.json`]: JSON.stringify(config) }) })
  try {
    const { program, checker } = api.updateSnapshot({ openProjects: [`${ROOT}/tsconfig.json`] }).getProjects()[0]!
    const [problem] = [...program.getSyntacticDiagnostics(), ...program.getSemanticDiagnostics()]
    if (problem !== undefined) throw new Error(`${problem.fileName}: ${problem.text}`)
    const symbols = Object.keys(files).flatMap((path) =>
      checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(path)!)!),
    )
    return Object.fromEntries(
      symbols.map((symbol) => [schemaName(symbol.name), typeShape([checker.getDeclaredTypeOfSymbol(symbol)], checker)]),
    )
  } finally {
    api.close()
  }
}

function typeShape(types: readonly Type[], checker: Checker): string {
  return unionShape(types.flatMap((type) => partsOf(type).map((part) => partShape(part, checker))))
}

function partsOf(type: Type): readonly Type[] {
  return type.isUnionType() ? type.getTypes() : [type]
}

const INTRINSIC = TypeFlags.String | TypeFlags.Number | TypeFlags.Null | TypeFlags.Undefined | TypeFlags.Unknown

function partShape(type: Type, checker: Checker): string {
  if (type.flags & INTRINSIC) return checker.typeToString(type)
  if (type.isLiteralType()) return JSON.stringify(type.value)
  if (checker.isArrayType(type)) return `(${typeShape(checker.getTypeArguments(type as TypeReference), checker)})[]`
  if (!type.isObjectType()) throw new Error(`${checker.typeToString(type)} is not a type of JSON values`)
  const members = checker.getPropertiesOfType(type).map((member) => {
    const isOptional = (member.flags & SymbolFlags.Optional) !== 0
    const parts = partsOf(checker.getTypeOfSymbol(member)!)
    // JSON leaves a member out that is undefined.
    const shown = isOptional ? parts.filter(({ flags }) => !(flags & TypeFlags.Undefined)) : parts
    return memberShape(member.name, isOptional, typeShape(shown, checker))
  })
  const others = checker.getIndexInfosOfType(type).map(({ valueType }) => memberShape('*', false, typeShape([valueType], checker)))
  return objectShape([...members, ...others])
}

/** A type whose name another room has, too, ends in `Json`. */
function schemaName(type: string): string {
  return type.replace(/Json$/, '')
}

/** The part of JSON Schema that the description uses. */
export interface JsonSchema {
  readonly $ref?: string
  readonly type?: string
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly anyOf?: readonly JsonSchema[]
  readonly allOf?: readonly JsonSchema[]
  readonly items?: JsonSchema
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: JsonSchema | false
}

const KEYWORDS = ['$ref', 'type', 'enum', 'const', 'anyOf', 'allOf', 'items', 'properties', 'required', 'additionalProperties']
/** These do not change a shape. */
const DETAILS = ['description', 'format', 'pattern', 'minLength', 'minimum', 'exclusiveMinimum', 'minProperties']

export type Schemas = Readonly<Record<string, JsonSchema>>

/** Of schemas that may refer to each other. */
export function schemaShapes(schemas: Schemas): Shapes {
  return Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, schemaShape(schema, schemas)]))
}

function schemaShape(schema: JsonSchema, schemas: Schemas): string {
  return unionShape(schemaParts(schema, schemas))
}

function schemaParts(schema: JsonSchema, schemas: Schemas): string[] {
  const unknown = Object.keys(schema).filter((keyword) => !KEYWORDS.includes(keyword) && !DETAILS.includes(keyword))
  if (unknown.length > 0 || (schema.allOf !== undefined && schema.allOf.length !== 1))
    throw new Error(`a shape cannot be told by ${unknown.join() || 'allOf'}: ${JSON.stringify(schema).slice(0, 300)}`)
  if (schema.$ref !== undefined) return schemaParts(schemas[schema.$ref.replace('#/components/schemas/', '')]!, schemas)
  const parts = schema.anyOf ?? schema.allOf
  if (parts !== undefined) return parts.flatMap((part) => schemaParts(part, schemas))
  if ('const' in schema) return [JSON.stringify(schema.const)]
  if (schema.enum !== undefined) return schema.enum.map((value) => JSON.stringify(value))
  if (schema.type === 'array') return [`(${schemaShape(schema.items!, schemas)})[]`]
  if (schema.type === 'object') return [objectSchemaShape(schema, schemas)]
  if (schema.type === 'boolean') return ['true', 'false']
  return [schema.type === 'integer' ? 'number' : (schema.type ?? 'unknown')]
}

function objectSchemaShape({ properties = {}, required = [], additionalProperties = {} }: JsonSchema, schemas: Schemas): string {
  const lost = required.filter((name) => !Object.hasOwn(properties, name))
  if (lost.length > 0) throw new Error(`required, but not described: ${lost.join()}`)
  const members = Object.entries(properties).map(([name, member]) =>
    memberShape(name, !required.includes(name), schemaShape(member, schemas)),
  )
  if (additionalProperties === false) return objectShape(members)
  return objectShape([...members, memberShape('*', false, schemaShape(additionalProperties, schemas))])
}

function unionShape(parts: readonly string[]): string {
  const isBoolean = parts.includes('true') && parts.includes('false')
  const shown = isBoolean ? ['boolean', ...parts.filter((part) => part !== 'true' && part !== 'false')] : parts
  return [...new Set(shown)].sort().join(' | ')
}

function objectShape(members: readonly string[]): string {
  return `{ ${[...members].sort().join('; ')} }`
}

function memberShape(name: string, isOptional: boolean, shape: string): string {
  return `${name}${isOptional ? '?' : ''}: ${shape}`
}
