import fc from 'fast-check'

/** Any code units, in pairs or not. (fast-check's own unit `binary` is none of the halves, and takes a second to make ready.) */
export const anyText = fc.array(fc.nat(0xffff)).map((codes) => String.fromCharCode(...codes))
