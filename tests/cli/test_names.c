/* Tensor names: BERT's and Llama's behind prefixes, and those of --names.
 * May know: names.h, safetensors.h.
 * Must not know: how names.c does it. */
#include "check.h"
#include "made.h"
#include "names.h"

#include <stdio.h>
#include <string.h>

/* A table of empty tensors with these names. */
static void make_named(made_file *made, const char *const *names)
{
    char header[4096] = "{";
    for (int i = 0; names[i]; i++) {
        size_t used = strlen(header);
        snprintf(header + used, sizeof header - used,
            "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}", i ? "," : "", names[i]);
    }
    strcat(header, "}");
    made_safetensors(made, header, "", 0);
}

/* What names_find says: the q weight, bias and the message. */
static void expect_names(const char *const *names, int64_t layer, const char *templates, const char *family,
    const char *weight, const char *bias, const char *fragment)
{
    made_file made;
    safetensors file;
    layer_names found;
    char message[MADE_MESSAGE];
    make_named(&made, names);
    if (!CHECK(made_safetensors_parse(&made, made.size, &file, message), "refused: %s", message)) {
        return;
    }
    message[0] = 0;
    bool good = names_find(&file, layer, templates, &found, message, sizeof message);
    CHECK(good == (family != NULL), "found: %d, %s", good, message);
    if (good && family) {
        CHECK(strcmp(found.family, family) == 0, "family %s", found.family);
        CHECK(strcmp(found.weight[PROJECTION_Q]->name, weight) == 0, "q is %s", found.weight[PROJECTION_Q]->name);
        CHECK((found.bias[PROJECTION_Q] != NULL) == (bias != NULL), "bias");
        CHECK(!bias || strcmp(found.bias[PROJECTION_Q]->name, bias) == 0, "bias name");
        CHECK(found.rotary == (strcmp(family, "Llama") == 0), "rotary is %d", found.rotary);
    } else if (!family) {
        CHECK(strstr(message, fragment) != NULL, "'%s' lacks '%s'", message, fragment);
    }
    made_safetensors_close(&file);
}

static void test_known_names(void)
{
    static const char *const bert[] = { "bert.encoder.layer.11.attention.self.query.weight",
        "bert.encoder.layer.11.attention.self.query.bias", "bert.encoder.layer.11.attention.self.key.weight",
        "bert.encoder.layer.11.attention.self.value.weight", "bert.encoder.layer.11.attention.output.dense.weight",
        "bert.encoder.layer.1.attention.self.query.weight", NULL };
    static const char *const bare[] = { "encoder.layer.0.attention.self.query.weight",
        "encoder.layer.0.attention.self.key.weight", "encoder.layer.0.attention.self.value.weight",
        "encoder.layer.0.attention.output.dense.weight", NULL };
    static const char *const llama[] = { "model.layers.3.self_attn.q_proj.weight",
        "model.layers.3.self_attn.k_proj.weight", "model.layers.3.self_attn.v_proj.weight",
        "model.layers.3.self_attn.o_proj.weight", "model.layers.12.self_attn.q_proj.weight",
        "model.xlayers.3.self_attn.q_proj.weight", NULL };
    static const char *const twice[] = { "a.layers.3.self_attn.q_proj.weight", "b.layers.3.self_attn.q_proj.weight",
        NULL };
    static const char *const strange[] = { "encoder.layer.00.attention.self.query.weight",
        "encoder.layer..attention.self.query.weight", "xencoder.layer.0.attention.self.query.weight",
        "encoder.layer.99999999999999999999.attention.self.query.weight", ".weight", "layers.0", NULL };
    expect_names(bert, 11, NULL, "BERT", bert[0], bert[1], NULL);
    expect_names(bert, 1, NULL, NULL, NULL, NULL, "no ...1.attention.self.key.weight");
    expect_names(bert, 2, NULL, NULL, NULL, NULL, "--layer: the file has no layer 2, its layers are 1 to 11");
    expect_names(bert, -1, NULL, NULL, NULL, NULL, "--layer: is needed");
    expect_names(bare, 0, NULL, "BERT", bare[0], NULL, NULL);
    expect_names(llama, 3, NULL, "Llama", llama[0], NULL, NULL);
    expect_names(twice, 3, NULL, NULL, NULL, NULL, "2 tensors could be");
    expect_names(strange, 0, NULL, NULL, NULL, NULL, "give --names");
}

static void test_given_names(void)
{
    static const char *const names[] = { "h.4.wq", "h.4.wk", "h.4.wv", "h.4.wo", "h.4.bq", "h.4.q.4", NULL };
    static const char *const wrong_templates[][2] = {
        { "q=h.4.wq,k=h.4.wk,v=h.4.wv", "--names: o= is missing" },
        { "q=h.4.wq,q=h.4.wq", "'q' is given twice" },
        { "q=h.4.w", "no tensor 'h.4.w'" },
        { "q=", "no tensor ''" },
        { "", "--names: '' is not" },
        { "q", "--names: 'q' is not" },
        { "x=h.4.wq", "--names: 'x=h.4.wq' is not" },
        { "bx=h.4.wq", "is not q=" },
        { "bqq=h.4.wq", "is not q=" },
        { "q=h.4.wq,,k=h.4.wk", "--names: '' is not" },
        { "q=h.4.wq,k=h.4.wk,v=h.4.wv,o=h.4.wo,", "--names: '' is not" },
    };
    expect_names(names, 4, "q=h.{layer}.wq,k=h.{layer}.wk,v=h.{layer}.wv,o=h.{layer}.wo,bq=h.{layer}.bq", "--names",
        "h.4.wq", "h.4.bq", NULL);
    expect_names(names, 4, "q=h.{layer}.q.{layer},k=h.4.wk,v=h.4.wv,o=h.4.wo", "--names", "h.4.q.4", NULL, NULL);
    expect_names(names, -1, "o=h.4.wo,v=h.4.wv,k=h.4.wk,q=h.4.wq", "--names", "h.4.wq", NULL, NULL);
    expect_names(names, -1, "q=h.{layer}.wq", NULL, NULL, NULL, "--layer: is needed");
    for (size_t i = 0; i < sizeof wrong_templates / sizeof wrong_templates[0]; i++) {
        expect_names(names, 4, wrong_templates[i][0], NULL, NULL, NULL, wrong_templates[i][1]);
    }
    char endless[1000] = "q=";
    memset(endless + 2, 'x', sizeof endless - 3);
    endless[sizeof endless - 1] = 0;
    expect_names(names, 4, endless, NULL, NULL, NULL, "longer than");
}

int main(int argc, char **argv)
{
    static const check_test tests[] = {
        { "known_names", test_known_names },
        { "given_names", test_given_names },
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
