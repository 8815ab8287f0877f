/* The events of a YAML text, by libyaml. What they mean is decided where the configuration is read. */
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "spansieve.h"

struct ss_yaml {
    yaml_parser_t parser;
    yaml_event_t event; /* the last one given out, whose texts are still lent */
};

ss_yaml *ss_yaml_new(const uint8_t *text, size_t length) {
    ss_yaml *yaml = calloc(1, sizeof *yaml);
    if (!yaml || !yaml_parser_initialize(&yaml->parser)) {
        free(yaml);
        return NULL;
    }
    yaml_parser_set_encoding(&yaml->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&yaml->parser, text, length);
    return yaml;
}

void ss_yaml_free(ss_yaml *yaml) {
    if (yaml) {
        yaml_event_delete(&yaml->event);
        yaml_parser_delete(&yaml->parser);
        free(yaml);
    }
}

static ss_status fail(const yaml_parser_t *parser, ss_yaml_event *event, ss_error *error) {
    if (parser->error == YAML_MEMORY_ERROR) {
        *error = (ss_error){.code = SS_ERR_NO_MEMORY, .reason = ss_status_text(SS_ERR_NO_MEMORY)};
        return error->code;
    }
    *error = (ss_error){.code = SS_ERR_MALFORMED, .offset = parser->problem_offset, .reason = parser->problem};
    if (parser->error != YAML_READER_ERROR) {
        error->offset = parser->problem_mark.index;
        event->line = parser->problem_mark.line + 1;
        event->begin = (parser->context ? parser->context_mark : parser->problem_mark).line + 1;
    }
    return error->code;
}

static const char *text(const yaml_char_t *text) {
    return (const char *)text;
}

ss_status ss_yaml_next(ss_yaml *yaml, ss_yaml_event *event, ss_error *error) {
    const yaml_event_t *read = &yaml->event;
    *event = (ss_yaml_event){.kind = SS_YAML_OTHER};
    yaml_event_delete(&yaml->event);
    if (!yaml_parser_parse(&yaml->parser, &yaml->event)) {
        return fail(&yaml->parser, event, error);
    }
    event->line = read->start_mark.line + 1;
    switch (read->type) {
    case YAML_DOCUMENT_START_EVENT: event->kind = SS_YAML_DOCUMENT; break;
    case YAML_ALIAS_EVENT:
        event->kind = SS_YAML_ALIAS;
        event->anchor = text(read->data.alias.anchor);
        break;
    case YAML_SCALAR_EVENT:
        event->kind = SS_YAML_SCALAR;
        event->anchor = text(read->data.scalar.anchor);
        event->tag = text(read->data.scalar.tag);
        event->is_plain = read->data.scalar.plain_implicit;
        event->value = text(read->data.scalar.value);
        event->length = read->data.scalar.length;
        break;
    case YAML_SEQUENCE_START_EVENT:
        event->kind = SS_YAML_SEQUENCE;
        event->anchor = text(read->data.sequence_start.anchor);
        break;
    case YAML_MAPPING_START_EVENT:
        event->kind = SS_YAML_MAPPING;
        event->anchor = text(read->data.mapping_start.anchor);
        break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: event->kind = SS_YAML_END; break;
    case YAML_STREAM_END_EVENT:
    case YAML_NO_EVENT: event->kind = SS_YAML_STREAM_END; break; /* nothing comes after the end */
    default: break;
    }
    return SS_OK;
}
