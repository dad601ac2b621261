import { z } from 'zod'
import { formatPath, type Path, type Problem, show } from './problem.ts'
import { policySchema } from './schema.ts'
import { closest } from './suggest.ts'

export interface UnknownFields {
  /** Misspellings that would silently widen or arm a policy. */
  readonly errors: Problem[]
  readonly warnings: Problem[]
}

/** Fields that the schema does not know. They change nothing, but are seldom meant that way. */
export function findUnknownFields(schema: z.core.$ZodType, data: unknown, path: Path): UnknownFields {
  const result: UnknownFields = { errors: [], warnings: [] }
  visit(schema, data, path, result)
  return result
}

function visit(schema: z.core.$ZodType, value: unknown, path: Path, result: UnknownFields): void {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault) {
    visit(schema.unwrap(), value, path, result)
  } else if (schema instanceof z.ZodArray && Array.isArray(value)) {
    value.forEach((item, index) => {
      visit(schema.element, item, [...path, index], result)
    })
  } else if (schema instanceof z.ZodDiscriminatedUnion && isRecord(value)) {
    const option = schema.options.find((candidate) => candidate instanceof z.ZodObject && accepts(candidate, value))
    if (option) visit(option, value, path, result)
    else reportUnknown(Object.keys(value), Object.keys((schema.options[0] as z.ZodObject).shape), path, result)
  } else if (schema instanceof z.ZodObject && isRecord(value)) {
    const known = Object.keys(schema.shape)
    reportUnknown(Object.keys(value), known, path, result)
    for (const key of known) if (Object.hasOwn(value, key)) visit(schema.shape[key] as z.core.$ZodType, value[key], [...path, key], result)
  }
}

function accepts(option: z.ZodObject, value: Record<string, unknown>): boolean {
  return (option.shape['algorithm'] as z.ZodLiteral).safeParse(value['algorithm']).success
}

function reportUnknown(keys: readonly string[], known: readonly string[], path: Path, result: UnknownFields): void {
  for (const key of keys) if (!known.includes(key)) report(key, known, path, result)
}

function report(key: string, known: readonly string[], path: Path, result: UnknownFields): void {
  const suggestion = closest(key, known)
  const misplaced = suggestion === undefined ? rightPlace(key, path) : undefined
  const hint = suggestion !== undefined ? `: did you mean "${suggestion}"?` : misplaced !== undefined ? `: it belongs in ${misplaced}` : ''
  const problem = { path: formatPath(path), message: `unknown field ${show(key)}${hint}` }
  // Whatever stands in a selector was meant to narrow it: ignored, it would widen the policy.
  const isGuarded = path.at(-1) === 'selector' || misplaced !== undefined || (suggestion !== undefined && path.at(-1) === 'spec')
  if (isGuarded) result.errors.push(problem)
  else result.warnings.push(problem)
}

const SPEC = policySchema.shape.spec
const SPEC_FIELDS = Object.keys(SPEC.shape)
const SELECTOR_FIELDS = Object.keys(SPEC.shape.selector.unwrap().shape)

/** A mode or selector that stands one level too high would arm a policy for everything, just as a misspelt one. */
function rightPlace(key: string, path: Path): string | undefined {
  const isPolicy = path.length === 2 && path[0] === 'policies'
  const isSpec = path.length === 3 && path[2] === 'spec'
  if (isPolicy && closest(key, SPEC_FIELDS) !== undefined) return 'spec'
  return (isPolicy || isSpec) && closest(key, SELECTOR_FIELDS) !== undefined ? 'spec.selector' : undefined
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
