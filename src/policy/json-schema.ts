import { z } from 'zod'
import { bundleSchema, metadataSchema, NOTE_NAMES, selectorSchema } from './schema.ts'

/** The JSON Schema for editors. It rejects what the service refuses, and accepts fields that the service only warns about. */
export function bundleJsonSchema(): Record<string, unknown> {
  const schema = z.toJSONSchema(bundleSchema, {
    target: 'draft-7',
    io: 'input',
    override({ jsonSchema, zodSchema }) {
      const schema = zodSchema instanceof z.ZodOptional ? zodSchema.unwrap() : zodSchema
      if (jsonSchema.type !== 'object' || schema === metadataSchema || schema instanceof z.ZodRecord) return
      jsonSchema.additionalProperties = false
      if (schema !== selectorSchema) jsonSchema.patternProperties = { [NOTE_NAMES.source]: {} }
    },
  })
  return { ...schema, title: 'edge policy bundle' }
}
